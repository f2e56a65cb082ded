"""`gearshift unload`: stop a variant and verify that it is gone."""

from __future__ import annotations

import time

import click

from gearshift.cli.durations import Duration
from gearshift.cli.session import Session, pass_session
from gearshift.cli.variant_name import VariantName, meant
from gearshift.cli.waiting import Rows, watch
from gearshift.domain.units import format_duration


@click.command("unload")
@click.argument("variant", type=VariantName())
@click.option("--timeout", type=Duration(), help="Stop waiting after this long (exit status 124).")
@click.option("--json", "as_json", is_flag=True, help="Print the variant's row when it is stopped.")
@pass_session
def command(session: Session, variant: str, timeout: float | None, *, as_json: bool) -> None:
    """Drain and stop a variant.

    Returns when its processes are gone, its port is free and its memory is back.
    """
    began = time.monotonic()
    variant = meant(session, variant)
    with session.output.progress() as progress:
        row = watch(
            session.admin,
            f"/variants/{variant}/unload",
            phase=lambda rows: _stage(rows, variant),
            progress=progress,
            timeout_s=timeout,
        )
    session.output.say(f"{variant} is stopped ({format_duration(time.monotonic() - began)})")
    session.output.emit(row, as_json=as_json, human=str)


def _stage(rows: Rows, variant: str) -> str:
    own = next((row for row in rows if row["variant"] == variant), None)
    if own is None:
        return "unloading"
    busy = f", {own['in_flight']} in flight" if own["state"] == "draining" else ""
    return f"{own['state']}{busy}"
