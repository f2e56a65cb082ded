"""A report as Markdown fit for a forum post: no pictures, the words of each chart left to the tables."""

from __future__ import annotations

from collections.abc import Iterator

from gearshift.report.blocks import Block, Bullets, Code, Figure, Report, Section, Table, Text

_SPECIAL = str.maketrans({"|": r"\|", "<": "&lt;", ">": "&gt;", "*": r"\*"})


def to_markdown(report: Report) -> str:
    """GitHub's Markdown, which Reddit and most forums take too; ends with a newline."""
    parts = [f"# {_plain(report.title)}", *_blocks(report.lead)]
    for section in report.sections:
        parts += _section(section)
    return "\n\n".join(parts) + "\n"


def _section(section: Section) -> Iterator[str]:
    blocks = list(_blocks(section.blocks))
    if blocks:
        yield f"## {_plain(section.title)}"
        yield from blocks


def _blocks(blocks: tuple[Block, ...]) -> Iterator[str]:
    tabled = any(isinstance(block, Table) for block in blocks)
    for block in blocks:
        match block:
            case Text():
                yield _plain(block.text)
            case Bullets():
                yield "\n".join(f"- {_plain(item)}" for item in block.items)
            case Table():
                yield _table(block)
            case Code():
                fence = "```" if "```" not in block.text else "~~~~"
                yield f"{fence}sh\n{block.text}\n{fence}"
            case Figure() if not tabled:
                yield _plain(block.text)  # a chart whose figures no table has
            case Figure():
                pass


def _table(table: Table) -> str:
    rules = ["---:" if place in table.numeric else "---" for place in range(len(table.columns))]
    lines = [[_plain(text) for text in row] for row in (table.columns, *table.rows)]
    lines.insert(1, rules)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _plain(text: str) -> str:
    """Text that Markdown shows as it is, in a table's cell too."""
    return " ".join(text.splitlines()).translate(_SPECIAL)
