"""`gearshift results`: what has been measured and kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import click

from gearshift.bench.results import Change, diff, experiment_head, experiment_json, to_csv
from gearshift.cli.bench.running import plain
from gearshift.cli.bench.view import figure, render
from gearshift.cli.output import table
from gearshift.cli.session import Session, pass_session
from gearshift.store import Measurements, StoredExperiment

_LIST_COLUMNS = ("ID", "WHEN (UTC)", "EXPERIMENT", "TOOL", "MODEL", "CELLS", "STATE")
_DIFF_COLUMNS = ("SETTING", "STREAMS", "DEPTH", "FIGURE", "A", "B", "CHANGE", "INTERVALS")
_LISTED = 50


@click.group("results")
def command() -> None:
    """List, show, compare and export stored measurements."""


def _json_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--json", "as_json", is_flag=True, help="One JSON document.")(function)


@command.command("list")
@click.option("--experiment", metavar="NAME", help="Only this kind: ladder, concurrency, ab, import, ...")
@click.option("--model", metavar="NAME", help="Only of this model.")
@click.option(
    "--limit", type=click.IntRange(1), default=_LISTED, show_default=True, help="How many to list, newest first."
)
@_json_option
@pass_session
def listed(session: Session, experiment: str | None, model: str | None, limit: int, *, as_json: bool) -> None:
    """List what is stored, newest first."""
    found = _kept(session).experiments(name=experiment, model=model, limit=limit)
    session.output.emit([_row(item) for item in found], as_json=as_json, human=lambda: _list_table(found))
    if not found:
        session.output.say("nothing is stored yet; measure something: gearshift bench")


@command.command("show")
@click.argument("number", metavar="ID", type=int)
@_json_option
@pass_session
def show(session: Session, number: int, *, as_json: bool) -> None:
    """Show one result with its cells."""
    document = plain(experiment_json(_kept(session).experiment(number)))
    session.output.emit(document, as_json=as_json, human=lambda: render(document, width=session.output.width))


@command.command("diff")
@click.argument("a", type=int)
@click.argument("b", type=int)
@_json_option
@pass_session
def difference(session: Session, a: int, b: int, *, as_json: bool) -> None:
    """Compare B with A over the cells they share.

    Refused, with every reason, where they measure different things. Intervals that do not touch are no verdict: the
    two were not interleaved; for one, use `bench ab`.
    """
    changes = diff(_kept(session).experiment(a), _kept(session).experiment(b))
    document = {"a": a, "b": b, "changes": [asdict(change) for change in changes]}
    session.output.emit(document, as_json=as_json, human=lambda: _diff_table(changes))


@command.command("export")
@click.argument("numbers", metavar="ID...", type=int, nargs=-1, required=True)
@click.option("--format", "form", type=click.Choice(("json", "csv")), default="json", show_default=True,
              help="A list of documents, or a line a cell.")  # fmt: skip
@pass_session
def export(session: Session, numbers: tuple[int, ...], form: str) -> None:
    """Print results as JSON documents or as CSV."""
    found = [_kept(session).experiment(number) for number in numbers]
    if form == "csv":
        session.output.write(to_csv(found), newline=False)
    else:
        session.output.document([plain(experiment_json(item)) for item in found])


def _kept(session: Session) -> Measurements:
    return Measurements(session.paths.database)


def _row(item: StoredExperiment) -> dict[str, Any]:
    return {**experiment_head(item), "cells": item.cell_count, "campaign": item.record.campaign}


def _list_table(found: Sequence[StoredExperiment]) -> str:
    rows = [
        [
            str(item.id),
            datetime.fromtimestamp(item.record.started, UTC).strftime("%Y-%m-%d %H:%M"),
            item.record.name,
            item.record.tool,
            item.record.model or "-",
            str(item.cell_count),
            item.state,
        ]
        for item in found
    ]
    return table(_LIST_COLUMNS, rows) if rows else ""


def _diff_table(changes: Sequence[Change]) -> str:
    apart = {True: "apart", False: "touch", None: "-"}
    rows = [
        [
            change.setting or "-",
            "-" if change.concurrency is None else str(change.concurrency),
            "-" if change.depth is None else str(change.depth),
            change.figure,
            figure(change.a, change.figure),
            figure(change.b, change.figure),
            f"{change.change:+.1%}",
            apart[change.apart],
        ]
        for change in changes
    ]
    return table(_DIFF_COLUMNS, rows)
