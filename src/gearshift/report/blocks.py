"""What a report is made of, whatever it is written as: sections of text, tables, charts and code."""

from __future__ import annotations

from dataclasses import dataclass

from gearshift.report.charts.shapes import Chart


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list of sentences."""

    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under their columns; ``numeric`` columns are set flush right."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Code:
    """Lines to copy."""

    text: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart. ``text`` says in words what it shows, for who cannot see it; ``note`` stands below it."""

    chart: Chart
    text: str
    note: str = ""


Block = Text | Bullets | Table | Code | Figure


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands under it."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """The whole."""

    title: str
    lead: tuple[Block, ...]
    sections: tuple[Section, ...]
