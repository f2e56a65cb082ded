"""`gearshift unload`: stop a variant, or all of them, and verify that it is gone."""

from __future__ import annotations

import time
from typing import Any

import click

from gearshift.cli.client import AdminError
from gearshift.cli.durations import Duration
from gearshift.cli.session import Session, pass_session
from gearshift.cli.variant_name import VariantName, meant
from gearshift.cli.waiting import Rows, watch
from gearshift.domain.errors import GearshiftError
from gearshift.domain.units import format_duration


@click.command("unload")
@click.argument("variant", type=VariantName(), required=False)
@click.option("--all", "every", is_flag=True, help="Every variant that is not stopped, one after the other.")
@click.option("--timeout", type=Duration(), help="Stop waiting after this long (exit status 124).")
@click.option("--json", "as_json", is_flag=True, help="Print the variant's row when it is stopped (a list with --all).")
@pass_session
def command(session: Session, variant: str | None, timeout: float | None, *, every: bool, as_json: bool) -> None:
    """Drain and stop a variant, or all of them.

    Returns when its processes are gone, its port is free and its memory is back.
    """
    if every == (variant is not None):
        msg = "name a variant, or give --all" if variant is None else "name a variant or give --all, not both"
        raise click.UsageError(msg)
    if variant is not None:
        row = _unloaded(session, meant(session, variant), timeout)
        session.output.emit(row, as_json=as_json, human=str)
        return
    rows, left = _all_unloaded(session, timeout)
    session.output.emit(rows, as_json=as_json, human=str)
    if not rows and not left:
        session.output.say("every variant was stopped already")
    if left:
        msg = f"not stopped: {', '.join(left)}"
        raise GearshiftError(msg, hint="what is left is named above; see gearshift ps")


def _unloaded(session: Session, variant: str, timeout_s: float | None) -> Any:
    """The row of a variant that was stopped. Raises AdminError or TimedOutError."""
    began = time.monotonic()
    with session.output.progress() as progress:
        row = watch(
            session.admin,
            f"/variants/{variant}/unload",
            phase=lambda rows: _stage(rows, variant),
            progress=progress,
            timeout_s=timeout_s,
        )
    session.output.say(f"{variant} is stopped ({format_duration(time.monotonic() - began)})")
    return row


def _all_unloaded(session: Session, timeout_s: float | None) -> tuple[list[Any], list[str]]:
    """The rows of those that were stopped, and who was not: one that fails keeps none of the others."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    rows: list[Any] = []
    left: list[str] = []
    for variant in [row["variant"] for row in session.admin.get("/variants") if row["state"] != "stopped"]:
        try:
            rows.append(
                _unloaded(session, variant, None if deadline is None else max(0.0, deadline - time.monotonic()))
            )
        except AdminError as error:
            session.output.fail(error)
            left.append(variant)
    return rows, left


def _stage(rows: Rows, variant: str) -> str:
    own = next((row for row in rows if row["variant"] == variant), None)
    if own is None:
        return "unloading"
    busy = f", {own['in_flight']} in flight" if own["state"] == "draining" else ""
    return f"{own['state']}{busy}"
