"""Readings that owners of such boxes published, beside the planner's answers: memory and what drafts earn."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gearshift.artifacts.facts import TensorGroup
from gearshift.domain.variant import EngineKind, Speculation
from gearshift.planner.calibration import Calibration
from gearshift.planner.ledger import PagedKv, Plan
from gearshift.planner.planning import plan
from gearshift.planner.request import PlannedDevice, PlanRequest
from gearshift.planner.vllm_start import resolve
from gearshift.planner.workload import workload_of
from planner.models import GIB, MIB, qwen06b, qwen27b, qwen27b_gguf

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


TWO_3090 = tuple(PlannedDevice(f"GPU-{name}", int(23.69 * GIB)) for name in "ab")
INT4 = replace(
    qwen27b(),
    quantization="auto-round",
    tensors=(
        TensorGroup("body", "I32", 1, 12_650_000_000, 1),
        TensorGroup("head", "BF16", 1, 2_543_000_000, 1_271_500_000),
        TensorGroup("mtp", "I32", 1, 298_000_000, 1),
        TensorGroup("embedding", "BF16", 1, 2_543_000_000, 1_271_500_000),
        TensorGroup("vision", "BF16", 1, 920_000_000, 460_000_000),
    ),
)


def int4_on_two_cards(context: int, *, share: float = 0.92) -> Plan:
    wanted = PlanRequest(
        "vllm", TWO_3090, version="0.22.0", context=context, kv_dtype="fp8_e5m2", prefix_caching=True, parallel=2,
        max_num_batched_tokens=8192, memory_share=share, speculation=Speculation("mtp", 3),
    )  # fmt: skip
    return plan(wanted, INT4)


def test_r3_11_a_context_capped_to_be_safe_uses_a_tenth_of_its_pool() -> None:
    planned = int4_on_two_cards(65_536)
    assert planned.fits is True
    assert isinstance(planned.kv, PagedKv)
    assert planned.kv.blocks is not None
    layout = resolve(PlanRequest("vllm", TWO_3090, version="0.22.0", context=262_144, kv_dtype="fp8_e5m2",
                                 prefix_caching=True, speculation=Speculation("mtp", 3)), INT4).layout  # fmt: skip
    assert layout.blocks_for(185_476) / planned.kv.blocks == pytest.approx(0.32, abs=0.03)
    assert (planned.kv.max_context or 0) >= 262_144  # three times what it was capped at, and more


def test_r3_11_what_vllm_held_of_each_card_is_within_the_plan_s_error() -> None:
    """23.3 of 24 GiB were seen while 185,476 tokens were read."""
    for ledger in int4_on_two_cards(200_000).ledger:
        assert abs(23.3 * GIB - ledger.planned_bytes) <= ledger.error_bytes


def test_r3_20_about_24_gib_are_more_than_the_share_of_the_final_recipe_leaves() -> None:
    """It asks for 0.90 of a card; even the reading of R3-11 is less than what was rounded to 24."""
    (first, _) = int4_on_two_cards(200_000, share=0.9).ledger
    missing = 23.5 * GIB - first.planned_bytes - first.error_bytes
    assert 0 < missing < 0.6 * GIB


def test_what_was_taken_of_four_cards_before_vllm_first_looked_is_within_the_error() -> None:
    """A log of 0.27.1 on four RTX PRO 6000: 94.05 of 95.01 GiB were free, after NCCL's set-up (gpu_worker.py)."""
    cards = tuple(PlannedDevice(f"GPU-{rank}", int(95.01 * GIB)) for rank in range(4))
    wanted = PlanRequest("vllm", cards, version="0.27.1", context=32_768, memory_share=0.9)
    for ledger in plan(wanted, qwen27b()).ledger:
        (line,) = (line for line in ledger.lines if line.name == "cuda context")
        assert abs(line.bytes - 0.96 * GIB) <= line.error_bytes


@pytest.mark.parametrize(("pool", "blocks", "fits"), [(9_650_000_000, 174, False), (9_700_000_000, 175, None)])
def test_the_engine_s_own_planner_takes_9_7_and_refuses_9_65_billion_bytes_with_a_draft_head(
    pool: int,
    blocks: int,
    fits: bool | None,  # noqa: FBT001 - the three answers
) -> None:
    planned = plan(
        PlanRequest("vllm", (PlannedDevice("GPU-a", None),), version="0.27.1", context=WINDOW, kv_dtype="fp8",
                    kv_bytes=pool, parallel=1, prefix_caching=True, speculation=Speculation("mtp", 1)),
        qwen27b(),
    )  # fmt: skip
    assert isinstance(planned.kv, PagedKv)
    assert (planned.kv.blocks, planned.fits) == (blocks, fits)


@pytest.mark.parametrize(
    ("kv", "drafted", "block_bytes"),
    [("fp8", 0, 51_380_224), ("fp8", 1, 55_148_544), ("fp8", 2, 55_705_600), ("fp8", 3, 55_705_600),
     ("auto", 0, 51_380_224), ("auto", 1, 55_705_600), ("auto", 3, 55_705_600)],
)  # fmt: skip
def test_a_block_of_all_groups_costs_what_was_published(kv: str, drafted: int, block_bytes: int) -> None:
    for ranks in (1, 2):
        cards = tuple(PlannedDevice(f"GPU-{rank}", None) for rank in range(ranks))
        wanted = PlanRequest(
            "vllm", cards, version="0.27.1", context=WINDOW, kv_dtype=kv, prefix_caching=True,
            speculation=Speculation("mtp", drafted) if drafted else None,
        )  # fmt: skip
        assert resolve(wanted, qwen27b()).layout.bytes_per_block * ranks == block_bytes


@pytest.mark.parametrize(("drafted", "gib"), [(1, 0.67), (3, 0.97)])
def test_what_a_draft_head_costs_in_cache_and_in_weights(drafted: int, gib: float) -> None:
    def needed(tokens: int) -> tuple[int, int]:
        planned = on_one_card(pool=11 * 10**9, drafted=tokens, batched=2048)
        assert isinstance(planned.kv, PagedKv)
        return planned.kv.recommended_bytes, planned.ledger[0].lines[0].bytes

    (cache, weights), (plain_cache, plain_weights) = needed(drafted), needed(0)
    assert (cache - plain_cache) / GIB == pytest.approx(gib, abs=0.006)
    assert (weights - plain_weights) / GIB == pytest.approx(20.57 - 19.78, abs=0.01)  # with and without, in two logs


@pytest.mark.parametrize(
    ("engine", "kv", "token", "draft", "state_mb"),
    [("vllm", "fp8", 32_768, 2_048, 153.9), ("vllm", "auto", 65_536, 4_096, 153.9),
     ("llama.cpp", "q8_0", 34_816, 4_096, 156.9), ("llama.cpp", "q4_0", 18_432, 4_096, 156.9)],
)  # fmt: skip
def test_the_27bs_cache_and_state_take_the_bytes_that_were_reported(
    engine: EngineKind, kv: str, token: int, draft: int, state_mb: float
) -> None:
    facts = NVFP4 if engine == "vllm" else replace(qwen27b_gguf(), tensors=NVFP4.tensors)
    wanted = PlanRequest(engine, (PlannedDevice("GPU-a", None),), kv_dtype=kv, speculation=Speculation("mtp", 3))
    work = workload_of(wanted, facts)
    assert work is not None
    assert (work.kv_token_bytes, work.draft_kv_token_bytes) == (token, draft)
    assert work.state_bytes / 1e6 == pytest.approx(state_mb, abs=0.05)
    assert (facts.count("full"), facts.count("recurrent")) == (16, 48)  # R1-18


@pytest.mark.parametrize(
    ("card", "ranks", "weights", "activation", "pool", "libraries"),
    [((95.01, 0.9), 4, 55.19, 0.76, 27.85, 1.70), ((15.51, 0.92), 1, 10.24, 0.79, 3.01, 0.23),
     ((15.51, 0.92), 1, 10.24, 0.40, 3.41, 0.22)],
    ids=["235B on four cards", "27B on 16 GB, cold", "27B on 16 GB, warm"],
)  # fmt: skip
def test_what_a_log_says_of_a_start_leaves_the_pool_that_it_says(
    card: tuple[float, float], ranks: int, weights: float, activation: float, pool: float, libraries: float
) -> None:
    """consumed + peak activation + pool = asked for: with a log's figures only the libraries are modelled."""
    total, share = card
    cards = tuple(PlannedDevice(f"GPU-{rank}", int(total * GIB)) for rank in range(ranks))
    seen = {"weights": int(weights * GIB), "peak activation": int(activation * GIB)}
    wanted = PlanRequest(
        "vllm", cards, version="0.27.1", context=4096, memory_share=share,
        calibration=Calibration(lines={card.id: seen for card in cards}),
    )  # fmt: skip
    body = TensorGroup("body", "U8", 1, int(weights * ranks * GIB), 1)
    planned = plan(wanted, replace(qwen06b(), quantization="fp8", tensors=(body,)))
    assert planned.kv_bytes is not None
    modelled = next(line.bytes for line in planned.ledger[0].lines if line.name == "libraries")
    assert (planned.kv_bytes + modelled) / GIB - libraries == pytest.approx(pool, abs=0.03)
