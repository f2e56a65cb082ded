"""Readings that owners of such boxes published, beside the planner's answers: memory and what drafts earn."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gearshift.artifacts.facts import TensorGroup
from gearshift.domain.variant import Speculation
from gearshift.planner.ledger import Plan
from gearshift.planner.planning import plan
from gearshift.planner.request import PlannedDevice, PlanRequest
from gearshift.planner.vllm_start import resolve
from gearshift.stats.invariants import acceptance_sums_to_length
from planner.models import GIB, MIB, qwen27b

WINDOW = 262_144
CARD = int(31.84 * GIB)  # an RTX 5090 as its driver counts
NVFP4 = replace(  # FFN and head in 4.5 bits, attention and GDN in 8, draft head, embedding and vision in 16
    qwen27b(),
    tensors=(
        TensorGroup("body", "U8", 1, 16_864_000_000, 1),
        TensorGroup("head", "U8", 1, 715_000_000, 1),
        TensorGroup("mtp", "BF16", 1, 849_000_000, 424_500_000),
        TensorGroup("embedding", "BF16", 1, 2_543_000_000, 1_271_500_000),
        TensorGroup("vision", "BF16", 1, 920_000_000, 460_000_000),
    ),
)


def on_one_card(*, pool: int, drafted: int, batched: int) -> Plan:
    wanted = PlanRequest(
        "vllm", (PlannedDevice("GPU-a", CARD),), version="0.27.1", context=WINDOW, kv_dtype="fp8", kv_bytes=pool,
        parallel=3, max_num_batched_tokens=batched, prefix_caching=True,
        speculation=Speculation("mtp", drafted) if drafted else None,
    )  # fmt: skip
    return plan(wanted, NVFP4)


def test_r1_06_large_batches_with_drafts_are_more_than_the_card_has() -> None:
    daily, wished = (on_one_card(pool=9_150_000_000, drafted=0, batched=512),
                     on_one_card(pool=10_050_000_000, drafted=3, batched=8192))  # fmt: skip
    assert daily.fits is True
    assert wished.fits is not True
    assert wished.ledger[0].planned_bytes > CARD


def test_r1_14_what_stays_free_beside_a_desktop_is_within_the_plans_error() -> None:
    ledger = on_one_card(pool=9_150_000_000, drafted=0, batched=512).ledger[0]
    desktop = GIB // 2
    spare, error = CARD - ledger.planned_bytes - desktop, ledger.error_bytes
    assert spare - error <= 1610 * MIB
    assert spare + error >= 1818 * MIB


@pytest.mark.parametrize(
    ("depth", "percent"),
    [(8_000, 5), (32_000, 8), (64_000, 13), (120_000, 21), (180_000, 30), (200_000, 33), (WINDOW, 42)],
)
def test_r3_15_one_pool_explains_its_use_at_every_depth(depth: int, percent: int) -> None:
    cards = (PlannedDevice("GPU-a", None), PlannedDevice("GPU-b", None))
    wanted = PlanRequest(
        "vllm", cards, version="0.22.0", context=WINDOW, kv_dtype="fp8", prefix_caching=True,
        speculation=Speculation("mtp", 3),
    )  # fmt: skip
    layout = resolve(wanted, qwen27b()).layout
    pool = layout.blocks_for(WINDOW) / 0.42
    assert round(100 * layout.blocks_for(depth) / pool) == percent


@pytest.mark.parametrize(
    ("accepted", "length", "holds"),
    [((0.77, 0.49), 2.26, True), ((0.75, 0.47, 0.27), 2.49, True), ((0.88, 0.78, 0.56), 3.3, False)],
    ids=["R3-03", "R3-04", "R3-13"],
)
def test_stated_lengths_are_the_sum_of_their_acceptance_or_are_found_out(
    accepted: tuple[float, ...],
    length: float,
    holds: bool,  # noqa: FBT001 - the published outcome
) -> None:
    assert acceptance_sums_to_length(accepted, length).ok is holds
