"""Acceptance of drafts by position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gearshift.report.blocks import Figure
from gearshift.report.charts.shapes import Bars
from gearshift.report.documents import Cell, Experiment
from gearshift.report.words import place, positions, share

_MOST = 6  # more bars in a group cannot be told apart; the table has them all


def figures(experiments: Sequence[Experiment]) -> Iterator[Figure]:
    """A chart an experiment that drafted; of valid cells, those that tell most apart if there are many."""
    for experiment in experiments:
        cells = [cell for cell in experiment.cells if cell.valid and cell.acceptance]
        if cells:
            yield _figure(experiment, _spread(cells))


def _figure(experiment: Experiment, cells: Sequence[Cell]) -> Figure:
    rates = [positions(cell.acceptance) for cell in cells]
    longest = max(map(len, rates))
    series = tuple((place(cell), _padded(found, longest)) for cell, found in zip(cells, rates, strict=True))
    groups = tuple(str(number + 1) for number in range(longest))
    chart = Bars(f"Acceptance by position, {experiment.label}", "share of drafts", groups, series)
    words = "; ".join(
        f"{place(cell)}: {', '.join(map(share, found))}" for cell, found in zip(cells, rates, strict=True)
    )
    note = "Drafts whose token at that position was accepted, over all drafts (unconditional)."
    return Figure(chart, f"{chart.title}. {words}.", note)


def _padded(rates: tuple[float, ...], length: int) -> tuple[float | None, ...]:
    return (*rates, *[None] * (length - len(rates)))


def _spread(cells: Sequence[Cell]) -> list[Cell]:
    """At most so many, evenly over the experiment, first and last among them."""
    if len(cells) <= _MOST:
        return list(cells)
    return [cells[number * (len(cells) - 1) // (_MOST - 1)] for number in range(_MOST)]
