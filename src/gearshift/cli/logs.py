"""`gearshift logs`: what an engine wrote."""

from __future__ import annotations

from collections.abc import Iterator

import click

from gearshift.cli.session import Session, pass_session
from gearshift.cli.variant_name import VariantName

CHUNK = 64 * 1024


@click.command("logs")
@click.argument("variant", type=VariantName())
@click.option("--follow", "-f", is_flag=True, help="Follow the log as it grows, across restarts of the engine.")
@click.option(
    "--lines", "-n", type=click.IntRange(0, 100_000), default=200, show_default=True, help="Last lines to print."
)
@click.option("--json", "as_json", is_flag=True, help="One document: the variant and its lines; not with --follow.")
@pass_session
def command(session: Session, variant: str, lines: int, *, follow: bool, as_json: bool) -> None:
    """Print an engine's log.

    The log of the newest start of VARIANT, byte for byte.
    """
    if follow and as_json:
        raise click.UsageError("--json is one document, which a followed log never completes; choose one")
    chunks = _chunks(session, variant, lines, follow=follow)
    if as_json:
        whole = b"".join(chunks).decode("utf-8", "replace").removesuffix("\n")
        session.output.document({"variant": variant, "lines": whole.split("\n") if whole else []})
        return
    written = 0
    for chunk in chunks:
        session.output.write_bytes(chunk)
        written += len(chunk)
    if not written:
        session.output.say(f"{variant} has no log yet")


def _chunks(session: Session, variant: str, lines: int, *, follow: bool) -> Iterator[bytes]:
    query = {"tail": lines, "follow": "true" if follow else None}
    path, timeout = f"/variants/{variant}/logs", None if follow else 10.0
    with session.admin.sent("GET", path, query=query, timeout=timeout) as request:
        response = request.good_answer()
        while chunk := response.read1(CHUNK):
            yield chunk
