"""A figure of cells against one of their coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from gearshift.report.blocks import Figure
from gearshift.report.charts.shapes import Lines, Point, Series
from gearshift.report.documents import Cell, Experiment
from gearshift.report.words import number, place_of, tokens

Coordinate = Literal["depth", "concurrency"]
_LEAST = 2  # one point is no line


def lines_of(
    experiments: Sequence[Experiment], name: str, *, title: str, x: Coordinate, x_label: str, y_label: str
) -> Figure | None:
    """Valid cells' ``name`` against ``x``; None without two points in a line.

    A line is one experiment, one setting, and one level of the coordinate that is not drawn.

    Raises:
        ValueError: the experiments' figures follow different definitions.
    """
    if len({experiment.axis for experiment in experiments}) > 1:
        msg = "figures of different definitions do not share an axis"
        raise ValueError(msg)
    series = [found for experiment in experiments for found in _series(experiment, name, x)]
    series = [found for found in series if len({point.x for point in found.points}) >= _LEAST]
    if not series:
        return None
    chart = Lines(title, x_label, y_label, tuple(_told_apart(series)))
    return Figure(chart, _in_words(chart, name), _note(chart, experiments))


def _series(experiment: Experiment, name: str, x: Coordinate) -> list[Series]:
    points: dict[tuple[str, int | None], list[Point]] = {}
    for cell in experiment.cells:
        (place, other), value = _coordinates(cell, x), cell.figure(name)
        if cell.valid and place is not None and value is not None:
            points.setdefault((cell.setting, other), []).append(Point(place, value.value, value.low, value.high))
    several = len({other for _, other in points}) > 1
    return [
        Series(
            " ".join(part for part in (experiment.label, setting, _other(other, x) if several else "") if part),
            tuple(sorted(found, key=lambda point: point.x)),
        )
        for (setting, other), found in points.items()
    ]


def _coordinates(cell: Cell, x: Coordinate) -> tuple[int | None, int | None]:
    """The one that is drawn, and the other one."""
    return (cell.depth, cell.concurrency) if x == "depth" else (cell.concurrency, cell.depth)


def _other(level: int | None, x: Coordinate) -> str:
    if level is None:
        return ""
    return place_of(level, None) if x == "depth" else place_of(None, level)


def _told_apart(series: Sequence[Series]) -> list[Series]:
    """Labels made unique: the second measurement of one thing is ``... (2)``."""
    seen: dict[str, int] = {}
    found = []
    for one in series:
        seen[one.label] = seen.get(one.label, 0) + 1
        label = one.label if seen[one.label] == 1 else f"{one.label} ({seen[one.label]})"
        found.append(Series(label, one.points))
    return found


def _in_words(chart: Lines, name: str) -> str:
    parts = [
        f"{one.label}: {number(one.points[0].y, name)} at {tokens(one.points[0].x)},"
        f" {number(one.points[-1].y, name)} at {tokens(one.points[-1].x)}"
        for one in chart.series
    ]
    return f"{chart.title} ({chart.x_label}). {'; '.join(parts)}."


def _note(chart: Lines, experiments: Sequence[Experiment]) -> str:
    """What the whiskers are, or that there are none, and whose definitions the axis follows."""
    known = [point for one in chart.series for point in one.points if point.low is not None]
    note = "Whiskers are 95 % intervals." if known else "No intervals are known."
    tool = experiments[0].tool
    return note if not experiments[0].definitions else f"{note} By the definitions of {tool}."
