"""`gearshift report`: measurements written up."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from gearshift.bench.results import experiment_json
from gearshift.cli.bench.running import plain
from gearshift.cli.session import Session, pass_session
from gearshift.domain.errors import GearshiftError
from gearshift.report import assemble, read_documents, to_html, to_markdown
from gearshift.store import Measurements

_STDIN = "-"
_SUFFIXES = {".md": "markdown", ".html": "html", ".htm": "html"}


@click.command("report")
@click.argument("sources", metavar="ID|FILE...", nargs=-1, required=True)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="File to write; by default stdout."
)
@click.option(
    "--format", "form", type=click.Choice(("html", "markdown")), help="By default from the output's name, else html."
)
@click.option("--title", help="By default the models' names.")
@pass_session
def command(
    session: Session, sources: tuple[str, ...], output: Path | None, form: str | None, title: str | None
) -> None:
    """Write measurements up as a page or a forum post.

    Of stored results by their number (see `results list`), and of files that `bench ... --json`, `results export` or
    `bench import --json` wrote; `-` reads one from stdin. The page is one file without scripts or anything to fetch.
    Home folders' names and keys are taken out.
    """
    report = assemble(read_documents([_document(session, source) for source in sources]), title=title)
    chosen = form or _SUFFIXES.get(output.suffix if output else "", "html")
    text = to_markdown(report) if chosen == "markdown" else to_html(report)
    if output is None:
        session.output.write(text, newline=False)
        return
    _write(output, text)
    session.output.say(f"wrote {output}")


def _document(session: Session, source: str) -> Any:
    """Raises GearshiftError for what is neither a stored result nor a file of one."""
    if source.isdecimal() and not Path(source).exists():
        return plain(experiment_json(Measurements(session.paths.database).experiment(int(source))))
    try:
        return json.loads(sys.stdin.read() if source == _STDIN else Path(source).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise GearshiftError(
            f"{source} cannot be read as JSON: {error}", hint="see `gearshift results list`"
        ) from error


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise GearshiftError(f"{path} cannot be written: {error.strerror}") from error
