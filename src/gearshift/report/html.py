"""A report as one HTML file that needs nothing else: no scripts, no fonts, no pictures to fetch."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from importlib import resources
from itertools import count

from gearshift.report.blocks import Block, Bullets, Code, Figure, Report, Section, Table, Text
from gearshift.report.drawing import Drawing, draw

_LONG = 28  # characters that a cell may have before it wraps
_STYLE = (resources.files("gearshift.report") / "page.css").read_text(encoding="utf-8")


def to_html(report: Report) -> str:
    """The page.

    Raises:
        GearshiftError: it has charts, and matplotlib is not installed.
    """
    numbers = count(1)
    title = escape(report.title)
    body = [f"<h1>{title}</h1>", *_blocks(report.lead, numbers)]
    for section in report.sections:
        body += _section(section, numbers)
    return "\n".join([*_head(title), *body, "</main>", "</body>", "</html>", ""])


def _head(title: str) -> Iterator[str]:
    yield from ("<!doctype html>", '<html lang="en">', "<head>", '<meta charset="utf-8">')
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="color-scheme" content="light dark">'
    # Even if a text got past escaping, nothing could run or be fetched.
    yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    yield from (f"<title>{title}</title>", f"<style>\n{_STYLE}</style>", "</head>", "<body>", "<main>")


def _section(section: Section, numbers: Iterator[int]) -> Iterator[str]:
    yield f"<section>\n<h2>{escape(section.title)}</h2>"
    yield from _blocks(section.blocks, numbers)
    yield "</section>"


def _blocks(blocks: tuple[Block, ...], numbers: Iterator[int]) -> Iterator[str]:
    figures = [block for block in blocks if isinstance(block, Figure)]
    if figures:
        yield '<div class="figures">'
        yield from (_figure(figure, next(numbers)) for figure in figures)
        yield "</div>"
    yield from (_block(block) for block in blocks if not isinstance(block, Figure))


def _block(block: Text | Bullets | Table | Code) -> str:
    match block:
        case Text():
            return f"<p>{escape(block.text)}</p>"
        case Bullets():
            return "<ul>\n" + "\n".join(f"<li>{escape(item)}</li>" for item in block.items) + "\n</ul>"
        case Code():
            return f"<pre><code>{escape(block.text)}</code></pre>"
        case Table():
            return _table(block)


def _table(table: Table) -> str:
    def row(cells: tuple[str, ...], tag: str) -> str:
        texts = [
            f"<{tag}{_kind(text, numeric=place in table.numeric)}>{_cell(text)}</{tag}>"
            for place, text in enumerate(cells)
        ]
        spoilt = " class=no" if table.columns[-1] == "valid" and cells[-1] == "NO" else ""
        return f"<tr{spoilt}>{''.join(texts)}</tr>"

    body = "\n".join(row(cells, "td") for cells in table.rows)
    head = row(table.columns, "th")
    return f'<div class="scroll"><table>\n<thead>{head}</thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'


def _kind(text: str, *, numeric: bool) -> str:
    """Long texts may wrap; figures are set flush right."""
    if len(text) > _LONG and " (" not in text:
        return " class=w"
    return " class=n" if numeric else ""


def _cell(text: str) -> str:
    """An interval goes under its median, which keeps a table narrow."""
    median, bracket, interval = text.partition(" (")
    return escape(median) + (f"<small>({escape(interval)}</small>" if bracket else "")


def _figure(figure: Figure, number: int) -> str:
    drawing = draw(figure.chart, number=number)
    note = f"<figcaption>{escape(figure.note)}</figcaption>" if figure.note else ""
    svg = drawing.svg.replace("<svg", f'<svg role="img" aria-label="{escape(figure.text)}"', 1)
    return f"<figure>\n{svg}\n{_legend(drawing)}{note}</figure>"


def _legend(drawing: Drawing) -> str:
    if not drawing.legend:
        return ""
    items = [
        f'<li><span style="color: var({key.variable})">{key.mark}</span> {escape(key.label)}</li>'
        for key in drawing.legend
    ]
    return f'<ul class="legend">{"".join(items)}</ul>\n'
