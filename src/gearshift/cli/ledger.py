"""`gearshift ledger`: a start-up log as figures."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from gearshift.advice.ledger import ledger_document, read_log
from gearshift.cli.ledger_view import render
from gearshift.cli.session import Session, pass_session

STDIN = "-"


@click.command("ledger")
@click.argument("logs", metavar="LOG...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON document: the last start, and all under starts.")
@pass_session
def command(session: Session, /, logs: tuple[str, ...], *, as_json: bool) -> None:
    """Read engines' start-up logs: where memory went, what failed.

    Of vLLM and llama.cpp alike, whole or in part, also as a wrapper or a container printed them; `-` reads stdin. Each
    start of each LOG is one entry; the last one is shown in full. llama-server prints its buffers with -lv 4.

    The exit status says only whether the logs could be read.
    """
    starts = [start for log in logs for start in read_log(log, _lines(log))]
    if all(start.start.engine == "command" for start in starts):
        session.output.warn(f"{', '.join(logs)}: no line of vLLM or llama.cpp in it")
    session.output.emit(ledger_document(starts), as_json=as_json, human=lambda: render(starts))


def _lines(log: str) -> list[str]:
    """The log's lines; bytes that are no UTF-8 are replaced. Raises BadParameter for a file that cannot be read."""
    try:
        raw = sys.stdin.buffer.read() if log == STDIN else Path(log).read_bytes()
    except OSError as error:
        raise click.BadParameter(f"{log} cannot be read: {error.strerror}", param_hint="LOG") from error
    return [line.removesuffix("\r") for line in raw.decode("utf-8", "replace").split("\n")]
