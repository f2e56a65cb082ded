"""Rules of vLLM's that no published reading holds, from the engine's source: packed types, limits by card."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gearshift.artifacts.facts import Layer
from gearshift.planner.answers import streams_at_once
from gearshift.planner.kv_types import packed_bytes
from gearshift.planner.planning import plan
from gearshift.planner.request import DeviceKind, PlannedDevice, PlanRequest
from gearshift.planner.vllm_start import Limits, default_limits
from planner.models import GIB, dense, qwen06b
from planner.test_vllm_blocks import figures, request


@pytest.mark.parametrize(
    ("kind", "slot"),
    [("turboquant_k8v4", 196), ("turboquant_4bit_nc", 134), ("turboquant_k3v4_nc", 118), ("turboquant_3bit_nc", 102),
     ("ultraquant_4bit", 136), ("nvfp4", 144), ("nvfp4_4over6", 144), ("int8_per_token_head", 264),
     ("int4_per_token_head", 136)],
)  # fmt: skip
def test_packed_types_have_the_sizes_of_the_engine_s_source(kind: str, slot: int) -> None:
    assert packed_bytes(kind, 8, 128, 128) == 8 * slot


def test_a_model_without_recurrent_layers_packs_all_but_its_outer_layers() -> None:
    """vLLM 0.32 keeps the first and the last two as they are; a block of packed ones holds 16 tokens of theirs."""
    wanted = request("0.32.0", kv="turboquant_4bit_nc", pool=4 * GIB, context=32_768)
    kv, alone = figures(plan(wanted, dense(32, kv_heads=8, head_dim=128))), 8 * 134
    assert kv.block_size == 64
    assert kv.bytes_per_block == 64 * (28 * alone + 4 * 8 * 128 * 2 * 2)
    assert not kv.exact
    assert any(
        "first and the last two layers" in note for note in plan(wanted, dense(32, kv_heads=8, head_dim=128)).notes
    )


def test_the_batch_left_to_the_engine_is_that_of_its_platform_and_card() -> None:
    def limits(*cards: PlannedDevice, cpu: bool = False, sequences: int | None = None, context: int = 4096) -> Limits:
        kind: DeviceKind = "cpu" if cpu else "cuda"
        wanted = PlanRequest("vllm", cards, device_kind=kind, parallel=sequences)
        return default_limits(wanted, context)

    small, big = PlannedDevice("gpu0", 24 * GIB), PlannedDevice("gpu0", 80 * GIB, "NVIDIA H100 80GB HBM3")
    assert limits(small) == Limits(256, 2048)
    assert limits(big) == Limits(1024, 8192)
    assert limits(PlannedDevice("gpu0", 180 * GIB, "NVIDIA B200")) == Limits(1024, 16_384)
    assert limits(PlannedDevice("gpu0", 80 * GIB, "NVIDIA A100-SXM4-80GB")) == Limits(256, 2048)
    ranks = (PlannedDevice("cpu", None), PlannedDevice("cpu+1", None))
    assert limits(*ranks, cpu=True) == Limits(256, 4096)
    assert limits(big, sequences=2, context=1000) == Limits(2, 2000)  # all sequences together are no longer


def test_servers_are_counted_once_whatever_the_ranks() -> None:
    wanted = replace(request("0.32.0", cpu=True, pool=GIB, context=4096),
                     devices=(PlannedDevice("cpu", None), PlannedDevice("cpu+1", None)))  # fmt: skip
    names = [[line.name for line in ledger.lines] for ledger in plan(wanted, qwen06b()).ledger]
    assert names == [["worker runtime", "server processes", "kv pool"], ["worker runtime", "kv pool"]]


@pytest.mark.parametrize("pool", [None, GIB])
def test_an_encoder_has_no_pool(pool: int | None) -> None:
    card = PlannedDevice("gpu0", 24 * GIB)
    wanted = PlanRequest("vllm", (card,), version="0.32.0", context=512, kv_bytes=pool)
    nothing = replace(dense(12, kv_heads=12, head_dim=64), layers=(Layer("none"),) * 12, stated_bytes=GIB)
    planned = plan(wanted, nothing)
    assert (planned.kv, planned.kv_bytes, planned.fits) == (None, None, True)
    assert "kv pool" not in {line.name for line in planned.ledger[0].lines}
    assert streams_at_once(planned, wanted, nothing, length=512) is None
    assert "it keeps nothing between tokens, so that vLLM makes no pool" in planned.notes
