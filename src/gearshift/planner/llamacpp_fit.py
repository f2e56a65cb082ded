"""The longest context of a llama.cpp plan that its devices hold, by search over whole steps of 256 tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gearshift.artifacts.facts import ModelFacts
from gearshift.planner.llamacpp import plan_llamacpp
from gearshift.planner.llamacpp_caches import cells_of
from gearshift.planner.positions import llamacpp_longest
from gearshift.planner.request import PlanRequest

_STEP = 256  # llama.cpp pads a context to this; finer answers would be the same cache


def longest_total_context(request: PlanRequest, facts: ModelFacts, *, most: int, spare: int = 0) -> int:
    """The longest -c up to ``most``, leaving ``spare`` bytes on every device; 0 where not even 256 tokens fit."""
    return _largest(lambda steps: _holds(request, facts, steps * _STEP, spare), most // _STEP) * _STEP


def longest_slot_context(request: PlanRequest, facts: ModelFacts) -> int:
    """The longest request that one slot can hold, up to the model's own context: slots apart share -c evenly."""
    trained = llamacpp_longest(request, facts) or 0
    slots = cells_of(request, facts).streams
    total = longest_total_context(request, facts, most=trained * slots)
    return min(total // slots // _STEP * _STEP, trained)


def _holds(request: PlanRequest, facts: ModelFacts, context: int, spare: int) -> bool:
    ledgers = plan_llamacpp(replace(request, context=context), facts).ledger
    return all(
        ledger.total_bytes is None
        or ledger.planned_bytes + request.other_bytes.get(ledger.device, 0) + spare <= ledger.total_bytes
        for ledger in ledgers
    )


def _largest(holds: Callable[[int], bool], most: int) -> int:
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low
