"""`gearshift load`: make a variant resident."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import click

from gearshift.cli.client import AdminError
from gearshift.cli.durations import Duration
from gearshift.cli.session import Session, pass_session
from gearshift.cli.variant_name import VariantName, meant
from gearshift.cli.waiting import Rows, watch
from gearshift.domain.errors import Failure, LoadFailedError
from gearshift.domain.units import format_duration


@click.command("load")
@click.argument("variant", type=VariantName())
@click.option("--timeout", type=Duration(), help="Stop waiting after this long (exit status 124).")
@click.option("--json", "as_json", is_flag=True, help="Print the variant's row when it is ready.")
@pass_session
def command(session: Session, variant: str, timeout: float | None, *, as_json: bool) -> None:
    """Make a variant resident, swapping like a request would.

    Waits until it is ready and shows the stages meanwhile. Leaving (Ctrl-C) gives up the place in the queue.
    """
    began = time.monotonic()
    variant = meant(session, variant)
    with session.output.progress() as progress:
        try:
            row = watch(
                session.admin,
                f"/variants/{variant}/load",
                phase=lambda rows: stage(rows, variant),
                progress=progress,
                timeout_s=timeout,
            )
        except AdminError as error:
            raise _with_cause(session, variant, error) from error
    session.output.say(f"{variant} is ready ({format_duration(time.monotonic() - began)})")
    session.output.emit(row, as_json=as_json, human=str)


def stage(rows: Rows, variant: str) -> str:
    """What is going on for ``variant``: its own stage, or what it waits for."""
    own = next((row for row in rows if row["variant"] == variant), None)
    if own is not None and own["state"] not in {"stopped", "failed"}:
        return str(own["stage"] or own["state"])
    leaving = [f"{row['state']} {row['variant']}" for row in rows if row["state"] in {"draining", "stopping"}]
    return ", ".join(leaving) or "queued"


def _with_cause(session: Session, variant: str, error: AdminError) -> AdminError | LoadFailedError:
    """The failed load with the engine's own words, which the row has and the error's sentence does not."""
    if error.code != "load_failed":
        return error
    failure: Mapping[str, Any] = session.admin.get(f"/variants/{variant}")["failure"] or {}
    known = Failure(failure.get("cause", error.message), failure.get("line"), failure.get("fix"))
    return LoadFailedError(error.message, failure=known, hint=f"the whole log: gearshift logs {variant}")
