"""How does it behave under so many streams? Per stream, in total, and where more streams stop paying."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from gearshift.bench.cell import CellResult
from gearshift.bench.outcome import Outcome
from gearshift.bench.plan import CellPlan, ExperimentPlan
from gearshift.bench.reservation import reserved
from gearshift.stats.estimate import Estimate, overlap

_GAIN = 0.05  # total throughput that a doubling of streams must add to count as paying


def plan(base: CellPlan, levels: Sequence[int], *, requests: int | None = None) -> ExperimentPlan:
    """A cell a level, ascending; ``requests`` a trial, by default max(4, level)."""
    cells = [
        replace(base, experiment="concurrency", concurrency=level, requests=requests or max(4, level))
        for level in sorted(set(levels))
    ]
    return ExperimentPlan("concurrency", tuple(cells))


def conclude(cells: Sequence[CellResult]) -> Outcome:
    """Where the total stops growing, from valid cells only."""
    known = [(cell, total) for cell in cells if cell.valid and (total := cell.output_tok_s) is not None]
    rates = [(cell.plan.concurrency, total) for cell, total in known]
    advice = [reserved(_knee(rates), (cell for cell, _ in known))] if len(rates) > 1 else []
    return Outcome(advice=tuple(text for text in advice if text))


def _knee(rates: Sequence[tuple[int, Estimate]]) -> str:
    for (level, rate), (more, higher) in pairwise(rates):
        doublings = (more / level - 1) or 1
        gain = higher.median / rate.median - 1
        if gain < _GAIN * min(1.0, doublings):
            figures = f"{rate.median:.4g} tok/s at {level}, {higher.median:.4g} at {more}"
            who = f"more than {level} streams" if level > 1 else "more than one stream"
            if gain < -_GAIN and not overlap(rate, higher):
                return f"{who} {'cost' if level > 1 else 'costs'} throughput: {figures}"
            return f"{who} {'add' if level > 1 else 'adds'} little: {figures}"
    (before, lower), (level, rate) = rates[-2:]
    if overlap(lower, rate):
        figures = f"{lower.median:.4g} and {rate.median:.4g} tok/s"
        return f"cannot tell whether {level} streams bring more than {before}: {figures}"
    return f"total throughput still grows at {level} streams ({rate.median:.4g} tok/s): measure higher levels"
