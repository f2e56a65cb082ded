"""Where speculation pays: total throughput over that without, by setting and concurrency."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gearshift.report.blocks import Figure
from gearshift.report.charts.shapes import Heat
from gearshift.report.documents import Experiment
from gearshift.report.words import tokens

Gain = Mapping[str, Any]


def figures(experiments: Sequence[Experiment]) -> Iterator[Figure]:
    """A map a depth, from the break-even findings of speculation experiments."""
    for experiment in experiments:
        found = experiment.findings.get("break_even") or []
        for depth in sorted({item["depth"] for item in found}):
            yield _figure(experiment, depth, [item for item in found if item["depth"] == depth])


def _figure(experiment: Experiment, depth: int, items: Sequence[Mapping[str, Any]]) -> Figure:
    levels = sorted({gain["concurrency"] for item in items for gain in item["gains"]})
    grid = [{gain["concurrency"]: gain for gain in item["gains"]} for item in items]
    chart = Heat(
        title=f"Speculation of {experiment.label}, {tokens(depth)} tokens deep",
        x_label="streams",
        rows=tuple(str(item["setting"]) for item in items),
        columns=tuple(str(level) for level in levels),
        values=tuple(tuple(row[level]["ratio"] if level in row else None for level in levels) for row in grid),
        sure=tuple(tuple(level in row and _sure(row[level]) for level in levels) for row in grid),
    )
    note = "Total throughput over that without speculation; the line is the break-even. * its interval does not hold 1."
    return Figure(chart, f"{chart.title}. {'; '.join(map(_words, items))}.", note)


def _sure(gain: Gain) -> bool:
    low, high = gain.get("low"), gain.get("high")
    return (low is not None and low > 1) or (high is not None and high < 1)


def _words(item: Mapping[str, Any]) -> str:
    gains = ", ".join(f"{gain['ratio']:.2f} at {gain['concurrency']}" for gain in item["gains"])
    return f"{item['setting']}: {gains}"
