"""The one sink for everything printed: data to stdout; words, progress and errors to stderr."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from gearshift.cli.progress import LineProgress, Progress, SilentProgress, live_progress
from gearshift.domain.errors import ConfigError, GearshiftError, LoadFailedError

GAP = "  "


class Output:
    """Human, JSON or quiet: ``as_json`` is set by a verb's --json, ``quiet`` by the command's -q."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet

    @property
    def width(self) -> int | None:
        """Columns of the terminal that data goes to; None for a pipe or a file."""
        return shutil.get_terminal_size().columns if sys.stdout.isatty() else None

    def write(self, text: str, *, newline: bool = True) -> None:
        """Data for a person or a pipe."""
        click.echo(text, nl=newline)

    def write_bytes(self, data: bytes) -> None:
        """Data as it came, such as an engine's log; flushed, so that a reader sees it at once."""
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def document(self, value: Any) -> None:
        """One JSON document."""
        self.write(json.dumps(value, indent=2, ensure_ascii=False))

    def emit(self, value: Any, *, as_json: bool, human: Callable[[], str]) -> None:
        """The same facts as one JSON document or as text."""
        if as_json:
            self.document(value)
        elif text := human():
            self.write(text)

    def say(self, text: str) -> None:
        """What happened, on stderr; nothing when quiet."""
        if not self.quiet:
            click.echo(text, err=True)

    def aside(self, text: str) -> None:
        """Part of a dim running text on stderr, such as a model's reasoning."""
        if not self.quiet:
            click.echo(click.style(text, dim=True), nl=False, err=True)

    def warn(self, text: str) -> None:
        """Something to act on, on stderr."""
        click.echo(f"{_label('warning')} {text}", err=True)

    def fail(self, error: GearshiftError) -> None:
        """A failure that does not end the program, on stderr."""
        for line in explained(error):
            click.echo(line, err=True)

    @contextmanager
    def progress(self) -> Iterator[Progress]:
        """For what may take longer than a second: a live line on a terminal, else one line per phase."""
        if self.quiet:
            yield SilentProgress()
        elif sys.stderr.isatty():
            with live_progress() as progress:
                yield progress
        else:
            yield LineProgress(self.say)


def explained(error: GearshiftError) -> Iterator[str]:
    """The lines a person reads: what happened, the engine's own words, what to do."""
    if isinstance(error, ConfigError) and error.problems:
        for problem in error.problems:
            yield f"{_label(problem.severity)} {problem}"
        return
    yield f"{_label('error')} {error.message}"
    if isinstance(error, LoadFailedError) and error.failure.line:
        yield f"  log: {error.failure.line}"
    if error.hint:
        yield f"{click.style('hint:', fg='cyan')} {error.hint}"


def _label(severity: str) -> str:
    return click.style(f"{severity}:", fg="yellow" if severity == "warning" else "red", bold=severity == "error")


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Left-aligned columns two spaces apart, without trailing blanks."""
    lines, widths = [columns, *rows], _widths(columns, rows)
    return "\n".join(
        GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def folded_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, keys: int, width: int | None) -> str:
    """A table that is wider than the terminal in parts below each other, each with the first ``keys`` columns again."""
    if width is None:
        return table(columns, rows)
    widths = _widths(columns, rows)
    parts: list[list[int]] = [list(range(keys))]
    for place in range(keys, len(columns)):
        taken = sum(widths[one] + len(GAP) for one in parts[-1]) + widths[place]
        if taken > width and len(parts[-1]) > keys:
            parts.append(list(range(keys)))
        parts[-1].append(place)
    return "\n\n".join(
        table([columns[place] for place in part], [[row[place] for place in part] for row in rows]) for part in parts
    )


def _widths(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(line[place]) for line in (columns, *rows)) for place in range(len(columns))]
