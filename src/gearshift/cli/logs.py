"""`gearshift logs`: what an engine wrote."""

from __future__ import annotations

import click

from gearshift.cli.session import Session, pass_session
from gearshift.cli.variant_name import VariantName

CHUNK = 64 * 1024


@click.command("logs")
@click.argument("variant", type=VariantName())
@click.option("--follow", "-f", is_flag=True, help="Go on as it grows, across restarts of the engine.")
@click.option(
    "--lines", "-n", type=click.IntRange(0, 100_000), default=200, show_default=True, help="Lines to begin with."
)
@pass_session
def command(session: Session, variant: str, lines: int, *, follow: bool) -> None:
    """Print an engine's log.

    The log of the newest start of VARIANT, byte for byte.
    """
    query = {"tail": lines, "follow": "true" if follow else None}
    path, timeout = f"/variants/{variant}/logs", None if follow else 10.0
    written = 0
    with session.admin.sent("GET", path, query=query, timeout=timeout) as exchange:
        response = exchange.good_answer()
        while chunk := response.read1(CHUNK):
            session.output.write_bytes(chunk)
            written += len(chunk)
    if not written:
        session.output.say(f"{variant} has no log yet")
