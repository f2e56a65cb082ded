"""A pool that takes what the share of the card leaves is as uncertain as what is counted before it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from gearshift.artifacts.facts import TensorGroup
from gearshift.planner.ledger import PagedKv, Plan
from gearshift.planner.planning import plan
from gearshift.planner.request import PlannedDevice, PlanRequest
from planner.models import GIB, qwen06b, qwen27b

MODEL = replace(qwen06b(), tensors=(TensorGroup("body", "BF16", 1, 2 * GIB, GIB),), context_train=1 << 20)


def planned(total: int, *, context: int = 40_960, pool: int | None = None) -> Plan:
    request = PlanRequest("vllm", (PlannedDevice("gpu0", total),), version="0.32.0", context=context, kv_bytes=pool)
    return plan(request, MODEL)


def needed(found: Plan) -> int:
    assert isinstance(found.kv, PagedKv)
    return found.kv.min_bytes


def test_a_pool_within_its_error_of_what_is_needed_leaves_the_answer_open() -> None:
    found = planned(8 * GIB)
    assert found.kv_bytes is not None
    assert abs(found.kv_bytes - needed(found)) < GIB // 2
    assert (found.fits, found.refusals) == (None, ())
    assert found.notes[-1].startswith("whether the pool that is left (")
    assert found.complete


def test_a_pinned_pool_is_judged_to_the_byte() -> None:
    least = needed(planned(24 * GIB))
    assert planned(24 * GIB, pool=least).fits is True
    assert planned(24 * GIB, pool=least - 1).fits is False


def test_only_a_pinned_pool_is_exact() -> None:
    kinds = [planned(24 * GIB, pool=pool).ledger[0].lines[-1].kind for pool in (None, 8 * GIB)]
    assert kinds == ["modelled", "exact"]


def test_a_hybrid_s_state_blocks_are_doubted_like_its_tokens() -> None:
    facts = replace(qwen27b(), tensors=MODEL.tensors)
    request = PlanRequest("vllm", (PlannedDevice("gpu0", int(16.2 * GIB)),), version="0.32.0", context=4096)
    found = plan(request, facts)
    assert isinstance(found.kv, PagedKv)
    assert found.kv.blocks is not None
    assert found.kv.blocks < 256
    assert found.refusals == ()
    assert found.fits is None


@settings(deadline=None)
@given(st.integers(4 * GIB, 20 * GIB), st.integers(16, 120_000), st.integers(0, 40_000))
def test_a_longer_context_never_turns_no_into_yes(total: int, context: int, more: int) -> None:
    rank = {True: 2, None: 1, False: 0}
    assert rank[planned(total, context=context).fits] >= rank[planned(total, context=context + more).fits]
