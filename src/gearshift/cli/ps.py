"""`gearshift ps`: every variant in a row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from gearshift.cli.output import table
from gearshift.cli.session import Session, pass_session
from gearshift.domain.units import format_bytes, format_duration

COLUMNS = (
    "VARIANT", "ENGINE", "STATE", "MEM(plan/real)", "CTX", "IN-FLIGHT", "QUEUED", "PID", "PORT", "UNLOAD-IN",
)  # fmt: skip
GIVEN_UP = ("PORT", "PID", "ENGINE", "UNLOAD-IN")  # in this order, where a terminal is too narrow
UNKNOWN = "-"


@click.command("ps")
@click.option("--json", "as_json", is_flag=True, help="One JSON document: a list of rows.")
@pass_session
def command(session: Session, *, as_json: bool) -> None:
    """Show every variant with its state, memory and load.

    A failed variant has its root cause and what to do about it underneath. A terminal that is too narrow gets fewer
    columns.
    """
    rows = session.admin.get("/variants")
    session.output.emit(rows, as_json=as_json, human=lambda: render(rows, session.output.width))


def render(rows: Sequence[Mapping[str, Any]], width: int | None = None) -> str:
    """The table, with the failure of each failed variant in the lines below its row; ``width`` is a terminal's."""
    lines = iter(_fitted([_cells(row) for row in rows], width).splitlines())
    text = [next(lines)]
    for row, line in zip(rows, lines, strict=True):
        text += [line, *_failure(row)]
    return "\n".join(text)


def _fitted(rows: Sequence[Sequence[str]], width: int | None) -> str:
    """The table without as many of the columns to give up as it takes to fit."""
    kept = list(COLUMNS)
    text = table(kept, rows)
    for name in GIVEN_UP:
        if width is None or max(map(len, text.splitlines())) <= width:
            break
        kept.remove(name)
        text = table(kept, [[row[COLUMNS.index(column)] for column in kept] for row in rows])
    return text


def _cells(row: Mapping[str, Any]) -> list[str]:
    version = row["engine_version"]
    return [
        row["variant"],
        f"{row['engine']} {version}" if version else row["engine"],
        _state(row["state"], row["stage"]),
        _memory(row["planned_bytes"], row["measured_bytes"]),
        _text(row["context"]),
        str(row["in_flight"]),
        str(row["queued"]),
        _text(next(iter(row["pids"]), None)),
        _text(row["port"]),
        UNKNOWN if row["unload_in_s"] is None else format_duration(row["unload_in_s"]),
    ]


def _state(state: str, stage: str | None) -> str:
    if not stage:
        return state
    return stage if stage.startswith(state) else f"{state} ({stage})"


def _memory(planned: int | None, measured: int | None) -> str:
    if planned is None and measured is None:
        return UNKNOWN
    return " / ".join(UNKNOWN if count is None else format_bytes(count) for count in (planned, measured))


def _text(value: object) -> str:
    return UNKNOWN if value is None else str(value)


def _failure(row: Mapping[str, Any]) -> Iterator[str]:
    """Why it failed; while it loads again, why it failed the last time."""
    failure = row["failure"]
    if failure is None:
        return
    yield f"  {'cause:' if row['state'] == 'failed' else 'last failure:'} {failure['cause']}"
    if failure["line"]:
        yield f"  log:   {failure['line']}"
    if failure["fix"]:
        yield f"  fix:   {failure['fix']}"
