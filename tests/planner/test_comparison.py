"""Plan and log side by side, and what the next plan keeps of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gearshift.artifacts.facts import TensorGroup
from gearshift.domain.startup import BufferKind, DeviceBuffer, StartFigures
from gearshift.domain.variant import Speculation
from gearshift.planner.calibration import Calibration
from gearshift.planner.comparison import Difference, calibration_of, differences
from gearshift.planner.ledger import PagedKv
from gearshift.planner.planning import plan
from gearshift.planner.request import PlannedDevice, PlanRequest
from planner.models import GIB, MIB, dense, qwen27b, smollm2

SMOL = PlanRequest("llama.cpp", (PlannedDevice("cpu", 16 * GIB),), device_kind="cpu", context=4096, parallel=1)
SMOL_LOG = StartFigures(
    weights_bytes=int(92.10 * MIB),
    kv_pool_bytes=90 * MIB,
    context=4096,
    buffers=(
        DeviceBuffer("CPU", "kv", 90 * MIB, host=True),
        DeviceBuffer("CPU", "compute", int(19.5 * MIB), host=True),
    ),
)


def test_figures_known_on_both_sides_are_compared() -> None:
    found = {difference.name: difference for difference in differences(plan(SMOL, smollm2()), SMOL_LOG)}
    assert set(found) == {"kv cache", "weights", "context"}
    assert found["kv cache"].relative == 0
    assert found["weights"].relative == pytest.approx(0, abs=0.001)


def test_a_relative_difference_says_how_much_was_planned_too_much() -> None:
    assert Difference("compute", 110, 100).relative == pytest.approx(0.1)
    assert Difference("compute", 5, 0).relative == 0


def test_a_measured_buffer_replaces_the_modelled_line_of_the_next_plan() -> None:
    first = plan(SMOL, smollm2())
    again = plan(replace(SMOL, calibration=calibration_of(first, SMOL_LOG)), smollm2())
    lines = {line.name: line for line in again.ledger[0].lines}
    assert (lines["compute"].bytes, lines["compute"].kind) == (int(19.5 * MIB), "measured")
    assert lines["kv cache"].kind == "exact"


def test_vllms_tokens_and_concurrency_are_compared() -> None:
    wanted = PlanRequest(
        "vllm", (PlannedDevice("GPU-a", None),), version="0.27.1", context=262_144, kv_dtype="fp8",
        prefix_caching=True, kv_bytes=9_150_000_000,
    )  # fmt: skip
    log = StartFigures(kv_tokens=268_170, concurrency=1.02, block_size=1568)
    found = {difference.name: difference.relative for difference in differences(plan(wanted, qwen27b()), log)}
    assert found == {"block size": 0, "kv tokens": 0, "concurrency": pytest.approx(0, abs=0.005)}


def test_a_log_settles_a_layout_that_no_formula_covers() -> None:
    facts = dense(4, kv_heads=2, head_dim=64)
    wanted = PlanRequest(
        "vllm", (PlannedDevice("GPU-a", None),), version="0.33.0", context=4096, kv_dtype="octave_4", kv_bytes=10**8
    )
    planned = plan(wanted, facts)
    assert isinstance(planned.kv, PagedKv)
    assert planned.kv.blocks_per_request == 256
    log = StartFigures(block_size=16, kv_pool_bytes=10**8, concurrency=25.0)
    kept = calibration_of(planned, log)
    assert (kept.block_size, kept.bytes_per_block) == (16, 10**8 // 6400)
    again = plan(replace(wanted, calibration=kept), facts).kv
    assert isinstance(again, PagedKv)
    assert again.concurrency == pytest.approx(25.0, rel=0.001)


def test_an_exact_layout_takes_nothing_from_a_rounded_log() -> None:
    wanted = PlanRequest("vllm", (PlannedDevice("GPU-a", None),), version="0.27.1", context=4096, kv_bytes=10**9)
    log = StartFigures(block_size=16, kv_pool_bytes=10**9, concurrency=7.0)
    assert calibration_of(plan(wanted, dense(4, kv_heads=2, head_dim=64)), log).bytes_per_block is None


MODEL = replace(dense(4, kv_heads=2, head_dim=64), tensors=(TensorGroup("body", "BF16", 1, 2 * GIB, GIB),))
CARD = PlanRequest("vllm", (PlannedDevice("GPU-a", 24 * GIB),), version="0.32.0", context=4096, kv_bytes=GIB)
CARDS = replace(CARD, devices=(PlannedDevice("GPU-a", 24 * GIB), PlannedDevice("GPU-b", 24 * GIB)))


def rank(number: int, kind: BufferKind, size: int) -> DeviceBuffer:
    return DeviceBuffer(f"rank {number}", kind, size)


def sizes(wanted: PlanRequest, kept: Calibration) -> list[dict[str, int]]:
    planned = plan(replace(wanted, calibration=kept), MODEL)
    return [{line.name: line.bytes for line in ledger.lines} for ledger in planned.ledger]


def test_a_log_of_vllm_replaces_lines_and_adds_none() -> None:
    buffers = (rank(0, "weights", 2 * GIB), rank(0, "kv", GIB), rank(0, "compute", 800 * MIB), rank(0, "graph", MIB))
    first = plan(CARD, MODEL)
    kept = calibration_of(first, StartFigures(buffers=buffers))
    (lines,) = sizes(CARD, kept)
    assert list(lines) == [line.name for line in first.ledger[0].lines]
    assert (lines["peak activation"], lines["cuda graphs"], lines["kv pool"]) == (800 * MIB, MIB, GIB)


def test_each_rank_keeps_its_own_figures() -> None:
    buffers = (rank(0, "weights", 9 * MIB), rank(1, "weights", 10 * MIB), rank(1, "graph", -5), rank(7, "graph", 5))
    kept = calibration_of(plan(CARDS, MODEL), StartFigures(buffers=buffers))
    assert kept.lines == {"GPU-a": {"weights": 9 * MIB}, "GPU-b": {"weights": 10 * MIB, "cuda graphs": 0}}
    assert [lines["weights"] for lines in sizes(CARDS, kept)] == [9 * MIB, 10 * MIB]


def test_a_pool_that_is_left_over_grows_with_what_was_seen_to_be_free() -> None:
    unpinned = replace(CARD, kv_bytes=None)
    before = plan(unpinned, MODEL)
    kept = calibration_of(before, StartFigures(buffers=(rank(0, "compute", 100 * MIB),)))
    after = plan(replace(unpinned, calibration=kept), MODEL)
    assert before.kv_bytes is not None
    assert after.kv_bytes is not None
    activation = next(line.bytes for line in before.ledger[0].lines if line.name == "peak activation")
    assert after.kv_bytes - before.kv_bytes == activation - 100 * MIB


def test_weights_with_a_drafter_among_them_are_not_kept() -> None:
    wanted = replace(CARDS, speculation=Speculation("draft", 2, "small"), draft=smollm2())
    kept = calibration_of(plan(wanted, MODEL), StartFigures(buffers=(rank(0, "weights", 9 * MIB),)))
    assert kept.lines == {}


def test_cards_of_llama_cpp_are_told_apart_by_number() -> None:
    wanted = replace(SMOL, devices=CARDS.devices, device_kind="cuda")
    buffers = (
        DeviceBuffer("CUDA0", "compute", 3 * MIB),
        DeviceBuffer("CUDA1", "compute", 5 * MIB),
        DeviceBuffer("CUDA_Host", "compute", 7 * MIB, host=True),
        DeviceBuffer("RPC[box]", "compute", 9 * MIB),
    )
    kept = calibration_of(plan(wanted, smollm2()), StartFigures(buffers=buffers))
    assert kept.lines == {"GPU-a": {"compute": 3 * MIB}, "GPU-b": {"compute": 5 * MIB}}


def test_a_tensor_split_s_one_figure_is_that_of_every_card() -> None:
    wanted = replace(SMOL, devices=CARDS.devices, device_kind="cuda", split="tensor")
    kept = calibration_of(plan(wanted, smollm2()), StartFigures(buffers=(DeviceBuffer("Meta()", "compute", MIB),)))
    assert kept.lines == {"GPU-a": {"compute": MIB}, "GPU-b": {"compute": MIB}}
