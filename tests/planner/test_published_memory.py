"""Memory that was published or logged of llama.cpp beside its caches: host inputs, driver, checkpoints, whole cards.

The ids are those of docs/readings.md; [L n] is a public log.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from gearshift.artifacts.facts import ModelFacts, MtpFacts, TensorGroup
from gearshift.planner.llamacpp_checkpoints import checkpoint_bytes, full_slot_bytes, saved_prompt_bytes
from gearshift.planner.llamacpp_compute import Batch, compute_line, host_compute
from gearshift.planner.planning import plan
from gearshift.planner.request import PlanRequest
from planner.models import GIB, MIB, dense, gemma4_12b_gguf, qwen9b_gguf, qwen27b_gguf
from planner.test_llamacpp import mib, on, request, slots


def test_layers_that_stay_behind_need_a_mask_of_their_own() -> None:
    """[L 03]: 20 of 33 layers on the card, a micro batch of 2,048."""
    found = host_compute(qwen9b_gguf(), Batch(2048, 8192, 1), layers_stay=True)
    assert found / MIB == pytest.approx(128.16, abs=0.3)
    whole, partial = (plan(request(gpu_layers=layers), qwen9b_gguf()).host for layers in (None, 20))
    inputs = [next(line.bytes for line in lines if line.name == "pinned inputs") for lines in (whole, partial)]
    assert inputs[1] - inputs[0] == 8192 * 512 * 2


def test_a_build_from_before_june_2026_had_masks_of_twice_the_width() -> None:
    """[L 04]: 276.29 MiB; one more of today's masks is the difference."""
    batch = Batch(512, 131_072, 1)
    assert host_compute(qwen27b_gguf(), replace(batch, copies=2)) / MIB == pytest.approx(276.29, abs=0.3)


def test_a_draft_context_s_pinned_inputs_are_within_their_error() -> None:
    """[L 05]: 4196.14 MiB in the draft context of two pipelined cards."""
    batch = Batch(1024, 524_288, 4)
    line = compute_line("pinned inputs", host_compute(qwen27b_gguf(), batch), batch)
    assert abs(line.bytes - 4196.14 * MIB) <= line.error_bytes


def test_a_driver_s_share_of_a_card_is_within_its_error() -> None:
    """[L 06]: about 298 MiB on each of two A40, which no line of the log shows."""
    (driver,) = (line for line in plan(request(cards=2), qwen27b_gguf()).ledger[0].lines if line.name == "driver")
    assert abs(driver.bytes - 298 * MIB) <= driver.error_bytes


def test_r3_20_the_final_recipe_takes_21_gib_of_each_card_before_its_context_fills() -> None:
    sizes = {"body": 25_873, "head": 1_350, "mtp": 452, "embedding": 1_350}  # MB in Q8_0
    groups = tuple(TensorGroup(role, "Q8_0", 1, size * 10**6, 1) for role, size in sizes.items())  # type: ignore[arg-type]  # roles
    facts = replace(
        qwen27b_gguf(), mtp=MtpFacts(1, complete=True), tensors=groups,
        layer_bytes=(25_873 * 10**6 // 64,) * 64 + (452 * 10**6,),
    )  # fmt: skip
    planned = plan(request(context=200_000, mtp=3, cards=2, split="tensor"), facts)
    assert planned.fits is True
    for ledger in planned.ledger:
        held = ledger.planned_bytes - sum(line.bytes for line in ledger.lines if line.name == "fill reserve")
        assert abs(held - 21 * GIB) <= ledger.error_bytes


def test_other_tools_miss_what_a_hybrid_keeps() -> None:
    """C8: 16 GB of cache for the 27B after one tool's fix, 53 before it; 3.5 MB of state in another."""
    wanted = request(context=262_144)
    cache = slots(wanted, qwen27b_gguf()).bytes
    assert cache / GIB == pytest.approx(16, abs=0.01)
    as_if_dense = replace(qwen27b_gguf(), layers=qwen27b_gguf().layers[3:4] * 64, recurrent=None)
    assert slots(wanted, as_if_dense).bytes == 4 * cache
    assert slots(wanted, qwen27b_gguf()).state_bytes / MIB == pytest.approx(149.6, abs=0.05)


def test_the_fill_reserve_tells_a_card_that_starts_from_one_that_can_be_filled() -> None:
    """Published of 3090s: 353 MiB left at 262,144 died at 155k; 1,177 MiB left at 200K filled to 183K."""
    reserve = {
        context: on(plan(request(context=context), qwen27b_gguf()), 0, "fill reserve") for context in (262_144, 200_192)
    }
    assert reserve[262_144] > 353
    assert reserve[200_192] > 1_177


@pytest.mark.parametrize(
    ("count", "mtp", "mib_of_state"),
    [
        (1, 0, 149.6),
        (1, 2, 448.9),
        (1, 3, 598.5),
        (1, 6, 1047.4),
        (4, 0, 598.5),
        (4, 2, 1795.5),
        (4, 3, 2394.0),
        (4, 6, 4189.5),
    ],
)
def test_the_27b_s_state_by_slots_and_drafts(count: int, mtp: int, mib_of_state: float) -> None:
    wanted = request(parallel=None if count == 4 else count, mtp=mtp)
    assert mib(slots(wanted, qwen27b_gguf()).state_bytes) == pytest.approx(mib_of_state, abs=0.05)


@pytest.mark.parametrize(
    ("wanted", "facts", "tokens", "logged"),
    [
        (request(mtp=2), qwen27b_gguf(), 2_011, 157.528),
        (request(mtp=3, draft_kv="q8_0"), qwen27b_gguf(), 129, 149.896),
        (request(), gemma4_12b_gguf(), 44, 13.751),
        (request(mtp=3), qwen27b_gguf(), 131_072, 664.75),
        (request(mtp=3), dense(4, kv_heads=2, head_dim=64), 131_072, 0.0),  # rolls back freely
    ],
    ids=["L 01", "L 04", "L 02", "deep", "dense"],
)
def test_a_context_checkpoint_is_as_large_as_its_log_says(
    wanted: PlanRequest, facts: ModelFacts, tokens: int, logged: float
) -> None:
    assert checkpoint_bytes(wanted, facts, tokens) / MIB == pytest.approx(logged, abs=0.001)


@pytest.mark.parametrize(("context", "mtp", "gib"), [(131_072, 3, 6.6), (262_144, 3, 21.3), (262_144, 0, 4.8)])
def test_a_full_slot_s_checkpoints_are_told_before_the_box_swaps(context: int, mtp: int, gib: float) -> None:
    wanted = request(context=context, mtp=mtp)
    assert full_slot_bytes(wanted, qwen27b_gguf()) / GIB == pytest.approx(gib, abs=0.05)
    note = f"context checkpoints take up to {gib} GiB of host memory: see -ctxcp and -cms"
    assert note in plan(wanted, qwen27b_gguf()).notes
    fewer = replace(wanted, checkpoints=2, checkpoint_spacing=1024)
    assert full_slot_bytes(fewer, qwen27b_gguf()) < GIB // 2


def test_a_saved_prompt_keeps_the_window_of_sliding_layers_and_all_of_the_others() -> None:
    assert saved_prompt_bytes(request(), gemma4_12b_gguf(), 1_508) / MIB == pytest.approx(343.593, abs=0.01)
