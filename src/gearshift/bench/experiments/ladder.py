"""What does context cost? Decode, prefill, acceptance and recall at growing depth, in the same cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gearshift.bench.cell import CellResult
from gearshift.bench.outcome import Outcome
from gearshift.bench.plan import CellPlan, ExperimentPlan
from gearshift.bench.reservation import reserved
from gearshift.stats.estimate import overlap

_TEMPLATE_ROOM = 96  # tokens left for a chat template
DEFAULT_DEPTHS = (1024, 4096, 8192, 16384, 32768, 65536, 131072, 262144)


def plan(
    base: CellPlan, depths: Sequence[int], *, context: int | None, needles: Sequence[float] = ()
) -> ExperimentPlan:
    """A cell a depth, ascending; depths that do not fit ``context`` beside the answer become the deepest that does.

    Every prompt is new from its first word: on a server that caches, an ascending ladder over one text would be half
    cached at each doubling.
    """
    limit = None if context is None else context - base.output - _TEMPLATE_ROOM
    fitting = sorted({depth if limit is None else min(depth, limit) for depth in depths if limit is None or limit > 0})
    requests = max(base.requests, len(needles))
    cells = [
        replace(base, experiment="ladder", depth=depth, requests=requests, needles=tuple(needles)) for depth in fitting
    ]
    return ExperimentPlan("ladder", tuple(cells))


def conclude(cells: Sequence[CellResult]) -> Outcome:
    """What depth costs, by valid cells, and where recall fails, which no late client and no other traffic touches."""
    advice = [_cost([cell for cell in cells if cell.valid]), *(_recall(cell) for cell in cells)]
    return Outcome(advice=tuple(text for text in advice if text))


def _cost(cells: Sequence[CellResult]) -> str:
    known = [(cell, rate) for cell in cells if (rate := cell.decode_tok_s) is not None]
    if len(known) < 2:  # noqa: PLR2004 - a cost needs two depths
        return ""
    (shallow, fast), (deep, slow) = known[0], known[-1]
    words = f"decode {fast.median:.4g} tok/s at {shallow.plan.depth} tokens, {slow.median:.4g} at {deep.plan.depth}"
    if overlap(fast, slow):
        return f"{words}: no difference that the intervals can tell"
    return reserved(f"{words} ({slow.median / fast.median - 1:+.1%})", (shallow, deep))


def _recall(cell: CellResult) -> str:
    score = cell.needle
    if score is None or score.found == score.asked:
        return ""
    return f"at {cell.plan.depth} tokens {score.found} of {score.asked} needles were found"
