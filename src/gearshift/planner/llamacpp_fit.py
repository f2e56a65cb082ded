"""The longest context of a llama.cpp plan that its devices hold, by search over whole steps of 256 tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gearshift.artifacts.facts import ModelFacts
from gearshift.planner.llamacpp import plan_llamacpp
from gearshift.planner.request import PlanRequest

_STEP = 256  # llama.cpp pads a context to this; finer answers would be the same cache


def longest_slot_context(request: PlanRequest, facts: ModelFacts, *, spare: int = 0) -> int:
    """Up to the model's own context, leaving ``spare`` bytes on every device; 0 where not even 256 tokens fit."""
    return (
        _largest(lambda steps: _holds(request, facts, steps * _STEP, spare), (facts.context_train or 0) // _STEP)
        * _STEP
    )


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
