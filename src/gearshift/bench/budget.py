"""What fits into a time: estimates cost, takes repeats away first, then whole cells. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gearshift.bench.plan import CellPlan, ExperimentPlan

_FIXED_S = 0.3  # a cell's own cost: fitting texts, reading counters
_LEAST_TRIALS = 2  # below this there is no interval


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast one stream of the target is; a single probe tells. Streams are assumed to share perfectly."""

    prefill_tok_s: float
    decode_tok_s: float

    def cost_s(self, plan: CellPlan) -> float:
        """Seconds for a cell: its warm-up wave and its trials."""
        request_s = plan.depth / self.prefill_tok_s + plan.output / self.decode_tok_s
        if plan.rate is not None:
            return _FIXED_S + request_s + plan.trials * (plan.requests / plan.rate + request_s)
        waves = math.ceil(plan.requests / plan.concurrency)
        warm_up_s = plan.concurrency * plan.depth / self.prefill_tok_s
        prefill_queue_s = (plan.concurrency - 1) * plan.depth / self.prefill_tok_s
        return _FIXED_S + warm_up_s + plan.trials * waves * (request_s + prefill_queue_s)


@dataclass(frozen=True, slots=True)
class Fitted:
    """A plan that fits, which knows what was left out of it.

    ``whole_s`` is what the plan needs as it was asked for, ``every_s`` all of its cells with the fewest repeats.
    """

    plan: ExperimentPlan
    cost_s: float
    whole_s: float
    every_s: float


def fit(plan: ExperimentPlan, pace: Pace, budget_s: float) -> Fitted:
    """Fewer repeats (never below two) until ``plan`` fits ``budget_s``, then without its dearest cells.

    At least one cell is left, fitting or not, and all of a plan that is whole. Of rising rates the highest go first,
    because each means something only after the one below it.
    """
    cells = list(plan.cells)
    every_s = _total([replace(cell, trials=min(cell.trials, _LEAST_TRIALS)) for cell in cells], pace)
    while _total(cells, pace) > budget_s and any(cell.trials > _LEAST_TRIALS for cell in cells):
        dearest = max((cell for cell in cells if cell.trials > _LEAST_TRIALS), key=pace.cost_s)
        cells[cells.index(dearest)] = replace(dearest, trials=dearest.trials - 1)
    dropped = []
    while _total(cells, pace) > budget_s and len(cells) > 1 and not plan.whole:
        # Of equally dear ones the last: the first setting is the one that the others are held against.
        dropped.append(max(reversed(cells), key=lambda cell: (cell.rate or 0.0, pace.cost_s(cell))))
        cells.remove(dropped[-1])
    return Fitted(
        replace(plan, cells=tuple(cells), left_out=tuple(dropped)),
        _total(cells, pace),
        _total(plan.cells, pace),
        every_s,
    )


def _total(cells: Sequence[CellPlan], pace: Pace) -> float:
    return sum(pace.cost_s(cell) for cell in cells)
