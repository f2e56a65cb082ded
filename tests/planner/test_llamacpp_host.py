"""Host memory that a llama-server fills as it serves: saved prompts up to -cram, checkpoints up to -ctxcp."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gearshift.artifacts.facts import Layer
from gearshift.domain.device import CPU_DEVICE, Device
from gearshift.domain.units import GIB, MIB
from gearshift.domain.variant import ArgValue, EngineRef, Speculation, Variant
from gearshift.planner.ledger import Line, Plan
from gearshift.planner.planning import plan, plan_variant
from gearshift.planner.request import PlannedDevice, PlanRequest
from planner.models import qwen27b_gguf, smollm2

WINDOW = 262_144
CARD = PlanRequest("llama.cpp", (PlannedDevice("GPU-a", 96 * GIB),), context=WINDOW, parallel=1)


def host(planned: Plan) -> dict[str, Line]:
    return {line.name: line for line in planned.host}


def on_cpu(total: int, **args: ArgValue) -> Plan:
    wanted = Variant("m", "a", EngineRef("llama.cpp"), "w.gguf", context=8192, parallel=1,
                     args={name.replace("_", "-"): value for name, value in args.items()})  # fmt: skip
    return plan_variant(wanted, smollm2(), (Device(CPU_DEVICE, None, "", total),), engine_version="b11434")


def test_the_prompt_cache_may_grow_to_its_limit_and_begins_empty() -> None:
    for planned in (plan(CARD, smollm2()), on_cpu(64 * GIB)):
        line = host(planned)["prompt cache"]
        assert (line.bytes, line.kind, line.error_bytes) == (8 * GIB, "modelled", 8 * GIB)


@pytest.mark.parametrize(
    ("flag", "value", "size"),
    [("cache_ram", 512, 512 * MIB), ("cram", "2048", 2 * GIB), ("cache_ram", 0, None), ("cache_ram", -1, None)],
)
def test_its_limit_is_the_flag_s(flag: str, value: ArgValue, size: int | None) -> None:
    planned = on_cpu(64 * GIB, **{flag: value})
    line = host(planned).get("prompt cache")
    assert (line.bytes if line else None) == size
    assert any("has no limit" in note for note in planned.notes) is (value == -1)


@pytest.mark.parametrize(("version", "there"), [("b11434", True), ("6000", False), ("0", True), (None, True)])
def test_builds_before_october_2025_had_none(version: str | None, there: bool) -> None:  # noqa: FBT001 - a table
    assert ("prompt cache" in host(plan(replace(CARD, version=version), smollm2()))) is there


def test_only_models_that_cannot_roll_back_keep_checkpoints() -> None:
    assert "context checkpoints" not in host(plan(CARD, smollm2()))
    kept = host(plan(CARD, qwen27b_gguf()))["context checkpoints"]
    assert kept.bytes == pytest.approx(4.8 * GIB, rel=0.02)
    windowed = replace(smollm2(), layers=(Layer("sliding", 1, 64, 64),) * 4, window=1024)
    assert host(plan(CARD, windowed))["context checkpoints"].bytes > 0


def test_with_a_draft_head_checkpoints_grow_and_their_error_holds_the_worst_case() -> None:
    drafting = replace(CARD, speculation=Speculation("mtp", 3))
    alone, shared = (
        host(plan(replace(drafting, parallel=slots, unified_kv=slots > 1), qwen27b_gguf()))["context checkpoints"]
        for slots in (1, 4)
    )
    assert alone.bytes == pytest.approx(21.3 * GIB, rel=0.02)
    whole = 149.625 * MIB + WINDOW * (4096 + 25)
    assert alone.bytes + alone.error_bytes >= 32 * whole
    assert shared.bytes + shared.error_bytes == pytest.approx(32 * (whole + 3 * 149.625 * MIB), rel=0.01)
    assert min(alone.error_bytes - alone.bytes, shared.error_bytes - shared.bytes) >= 0


def test_more_than_the_host_has_is_said_on_the_cpu_and_beside_cards() -> None:
    assert any("more than the 8.0 GiB there are" in note for note in on_cpu(8 * GIB).notes)
    assert not any("there are: lower" in note for note in on_cpu(8 * GIB, cram=1024).notes)
    tight, ample, unknown = (
        plan(replace(CARD, ram_bytes=ram), qwen27b_gguf()).notes for ram in (12 * GIB, 64 * GIB, None)
    )
    assert any("more than the 12.0 GiB there are" in note for note in tight)
    assert not any("there are: lower" in note for note in (*ample, *unknown))


def test_what_may_grow_does_not_decide_which_variants_share_a_device() -> None:
    small, large = on_cpu(64 * GIB, cram=0), on_cpu(64 * GIB)
    assert small.bytes_by_device == large.bytes_by_device
    assert large.fits is True
