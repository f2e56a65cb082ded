"""Parts of the docs that are made from the program: `python -m gearshift.cli.reference docs/*.md` refreshes them.

A generated part stands between ``<!-- generated: NAME -->`` and ``<!-- end -->``; NAME is ``help``, ``help VERB ...``
or ``operations``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from gearshift.cli.root import root
from gearshift.web.table import PREFIX, TABLE

WIDTH = 88
_PART = re.compile(r"<!-- generated: (?P<name>[a-z -]+) -->\n.*?<!-- end -->", re.DOTALL)


def refreshed(text: str) -> str:
    """The document with every generated part made anew. Raises KeyError for an unknown part."""
    parts = dict(all_parts())
    return _PART.sub(lambda part: f"<!-- generated: {part['name']} -->\n{parts[part['name']]}\n<!-- end -->", text)


def all_parts() -> Iterator[tuple[str, str]]:
    """Every part there is, by name."""
    yield "operations", _operations()
    for path, text in help_texts(root, ("gearshift",), None):
        yield " ".join(("help", *path[1:])), f"```text\n{text}\n```"


def help_texts(
    command: click.Command, path: tuple[str, ...], parent: click.Context | None
) -> Iterator[tuple[tuple[str, ...], str]]:
    """The help of a command and of everything below it, at a fixed width."""
    context = click.Context(
        command,
        parent=parent,
        info_name=path[-1],
        terminal_width=WIDTH,
        max_content_width=WIDTH,
        help_option_names=["-h", "--help"],
    )
    yield path, command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            if child := command.get_command(context, name):
                yield from help_texts(child, (*path, name), context)


def _operations() -> str:
    """The admin API's table as Markdown."""
    rows = [
        f"| `{row.method} {PREFIX}{row.path.replace(':path', '')}` | {row.summary} "
        f"| {row.status} | {', '.join(map(str, sorted({400, *row.errors})))} |"
        for row in TABLE
    ]
    return "\n".join(["| operation | what it does | answer | refusals |", "|---|---|---|---|", *rows])


def main(files: list[str]) -> None:
    """Rewrite the generated parts of the files."""
    for file in map(Path, files):
        file.write_text(refreshed(file.read_text()))


if __name__ == "__main__":
    main(sys.argv[1:])
