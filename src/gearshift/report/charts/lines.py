"""A figure of cells against one of their coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from gearshift.report.blocks import Figure
from gearshift.report.charts.shapes import Lines, Point, Series
from gearshift.report.documents import Cell, Experiment
from gearshift.report.words import number, tokens

Coordinate = Literal["depth", "concurrency"]
_LEAST = 2  # one point is no line


def lines_of(
    experiments: Sequence[Experiment], name: str, *, title: str, x: Coordinate, x_label: str, y_label: str
) -> Figure | None:
    """Valid cells' ``name`` against ``x``, a line for each experiment and setting; None without two points in one.

    Raises:
        ValueError: the experiments' figures follow different definitions.
    """
    if len({experiment.axis for experiment in experiments}) > 1:
        msg = "figures of different definitions do not share an axis"
        raise ValueError(msg)
    series = [found for experiment in experiments for found in _series(experiment, name, x)]
    series = [found for found in series if len(found.points) >= _LEAST]
    if not series:
        return None
    chart = Lines(title, x_label, y_label, tuple(_told_apart(series)))
    return Figure(chart, _in_words(chart, name), _note(chart, experiments))


def _series(experiment: Experiment, name: str, x: Coordinate) -> list[Series]:
    points: dict[str, list[Point]] = {}
    for cell in experiment.cells:
        place, value = _coordinate(cell, x), cell.figure(name)
        if cell.valid and place and value is not None:
            points.setdefault(cell.setting, []).append(Point(place, value.value, value.low, value.high))
    return [
        Series(" ".join(part for part in (experiment.name, setting) if part), tuple(sorted(found, key=lambda p: p.x)))
        for setting, found in points.items()
    ]


def _coordinate(cell: Cell, x: Coordinate) -> int | None:
    return cell.depth if x == "depth" else cell.concurrency


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
    note = "Whiskers are 95 % intervals." if known else "Single runs: no intervals."
    tool = experiments[0].tool
    return note if not experiments[0].definitions else f"{note} By the definitions of {tool}."
