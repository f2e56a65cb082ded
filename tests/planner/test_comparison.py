"""Plan and log side by side, and what the next plan keeps of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gearshift.domain.startup import DeviceBuffer, StartFigures
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
