"""Public config.json files planned as they stand: what is exact, what is not, and the known block sizes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gearshift.artifacts.model import read_model
from gearshift.planner.ledger import PagedKv, Plan
from gearshift.planner.planning import plan
from gearshift.planner.request import PlannedDevice, PlanRequest

CONFIGS = Path(os.environ.get("GEARSHIFT_SAMPLES") or Path(__file__).parents[3] / "shared" / "samples") / "configs"

pytestmark = pytest.mark.skipif(not CONFIGS.is_dir(), reason="the public configs are not beside this checkout")


def planned(name: str, *, version: str = "0.27.1", kv: str = "fp8", pool: int | None = None) -> Plan:
    request = PlanRequest(
        "vllm", (PlannedDevice("GPU-a", None),), version=version, kv_dtype=kv, prefix_caching=True, parallel=1,
        kv_bytes=pool,
    )  # fmt: skip
    return plan(request, read_model(CONFIGS / f"{name}.config.json"))


def figures(found: Plan) -> PagedKv:
    assert isinstance(found.kv, PagedKv)
    return found.kv


@pytest.mark.parametrize("name", ["Qwen--Qwen3.5-27B", "nvidia--Qwen3.6-27B-NVFP4"])
def test_two_names_of_one_text_model_need_the_same_pool(name: str) -> None:
    found = planned(name, pool=8_939_000_000)
    assert (figures(found).block_size, figures(found).min_bytes) == (1568, 8_940_158_976)
    assert figures(found).max_context == 261_856
    assert found.fits is False


@pytest.mark.parametrize(
    ("name", "block", "per_block"),
    [
        ("Qwen--Qwen3.5-35B-A3B", 2096, 10 * 2096 * 1024),
        ("Qwen--Qwen3-8B", 16, 36 * 16 * 2048),
        ("meta-llama--Meta-Llama-3.1-8B", 16, 32 * 16 * 2048),
        ("openai--gpt-oss-20b", 16, 12 * 16 * 1024),
        ("HuggingFaceTB--SmolLM2-135M", 16, 30 * 16 * 384),
        ("google--gemma-3-27b-it.reconstructed", 16, 10 * 16 * 4096),
    ],
)
def test_blocks_of_common_families_are_exact(name: str, block: int, per_block: int) -> None:
    kv = figures(planned(name))
    assert (kv.block_size, kv.bytes_per_block, kv.exact) == (block, per_block, True)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("google--gemma-4-26B-A4B", "different head sizes"),
        ("deepseek-ai--DeepSeek-V3", "latent attention"),
    ],
)
def test_families_outside_the_arithmetic_say_so(name: str, reason: str) -> None:
    found = planned(name, version="0.32.0")
    assert not figures(found).exact
    assert any(reason in note for note in found.notes)


def test_a_lone_config_leaves_the_fit_open() -> None:
    found = planned("Qwen--Qwen3.5-27B", pool=9_150_000_000)
    assert found.fits is None
    assert found.refusals == ()
    assert found.bytes_by_device is None
