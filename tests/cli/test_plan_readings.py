"""Published readings through the command line, from the public configs where they lie beside this checkout."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

Gearshift = Callable[..., Result]
CONFIGS = Path(os.environ.get("GEARSHIFT_SAMPLES") or Path(__file__).parents[3] / "shared" / "samples") / "configs"
WINDOW = "262144"

pytestmark = pytest.mark.skipif(not CONFIGS.is_dir(), reason="the public configs are not beside this checkout")


def plan(gearshift: Gearshift, name: str, *flags: str) -> dict[str, Any]:
    weights = str(CONFIGS / f"{name}.config.json")
    result = gearshift("plan", "--engine", "vllm", "--weights", weights, "--json", *flags)
    assert result.exit_code in {0, 1}, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    assert result.exit_code == (1 if found["fits"] is False else 0)
    return found


def hybrid(gearshift: Gearshift, version: str, *flags: str) -> dict[str, Any]:
    fixed = ("--engine-version", version, "--context", WINDOW, "--max-num-seqs", "1", *flags)
    kv: dict[str, Any] = plan(gearshift, "Qwen--Qwen3.5-27B", *fixed)["kv"]
    return kv


MINIMA = {  # cache type and prefix caching to bytes of the smallest pool for 0 to 3 drafted tokens
    ("fp8", "on"): (8_991_539_200, 9_706_143_744, 9_859_891_200, 10_027_008_000),
    ("fp8", "off"): (8_837_398_528, 9_540_698_112, 9_692_774_400, 9_859_891_200),
    ("bfloat16", "on"): (17_572_036_608, 18_828_492_800, 18_995_609_600, 19_162_726_400),
    ("bfloat16", "off"): (17_417_895_936, 18_661_376_000, 18_828_492_800, 18_995_609_600),
}


@pytest.mark.parametrize(("kind", "caching"), MINIMA)
def test_the_smallest_pools_of_a_27b_hybrid(gearshift: Gearshift, kind: str, caching: str) -> None:
    for drafted, size in enumerate(MINIMA[kind, caching]):
        speculation = f"mtp:{drafted}" if drafted else "off"
        flags = ("--kv-dtype", kind, "--prefix-caching", caching, "--speculation", speculation)
        new = hybrid(gearshift, "0.32.0", *flags)
        old = hybrid(gearshift, "0.28.0", *flags)
        halves = hybrid(gearshift, "0.32.0", *flags, "--gpus", "2")
        assert (new["min_bytes"], old["recommended_bytes"], 2 * halves["min_bytes"]) == (size, size, size)
        assert old["min_bytes"] == size - old["bytes_per_block"]


@pytest.mark.parametrize(
    ("version", "flags", "tokens", "concurrency"),
    [
        ("0.27.1", ("--kv-bytes", "9150000000", "--prefix-caching", "on"), 268_170, 1.02),
        ("0.25.1", ("--kv-bytes", "40000000000", "--prefix-caching", "off"), 1_192_678, 4.55),
        ("0.23.1", ("--kv-bytes", "48.6GiB", "--prefix-caching", "on", "--speculation", "mtp:2"), 1_394_129, 5.32),
        (
            "0.24.0",
            ("--kv-bytes", "5.33GiB", "--prefix-caching", "on", "--speculation", "mtp:3", "--gpus", "2"),
            300_220,
            1.15,
        ),
        (
            "0.24.0",
            ("--kv-bytes", "9.84GiB", "--prefix-caching", "on", "--kv-dtype", "fp8_e5m2", "--gpus", "2"),
            619_202,
            2.36,
        ),
    ],
)
def test_the_cache_line_of_public_logs(
    gearshift: Gearshift, version: str, flags: tuple[str, ...], tokens: int, concurrency: float
) -> None:
    kv = hybrid(gearshift, version, "--kv-dtype", "fp8", *flags)
    assert (kv["tokens"], round(kv["concurrency"], 2)) == (tokens, concurrency)


@pytest.mark.parametrize(("version", "longest"), [("0.27.1", 261_856), ("0.29.0", 260_288)])
def test_the_pool_that_was_288_tokens_short(gearshift: Gearshift, version: str, longest: int) -> None:
    kv = hybrid(gearshift, version, "--kv-dtype", "fp8", "--kv-bytes", "8939000000", "--prefix-caching", "on")
    assert kv["max_context"] == longest


def test_other_models_of_public_logs(gearshift: Gearshift) -> None:
    small = plan(
        gearshift, "HuggingFaceTB--SmolLM2-135M", "--engine-version", "0.32.0", "--device", "cpu",
        "--kv-bytes", "1GiB", "--context", "4096",
    )["kv"]  # fmt: skip
    assert (small["bytes_per_block"], small["tokens"], small["concurrency"]) == (2_949_120, 46_592, 11.375)
    refused = plan(
        gearshift, "Qwen--Qwen3-0.6B", "--engine-version", "0.28.0", "--device", "cpu", "--kv-bytes", "1GiB",
        "--context", "40960",
    )  # fmt: skip
    assert (refused["fits"], refused["kv"]["max_context"]) == (False, 9344)
    mixture = plan(
        gearshift, "Qwen--Qwen3.5-35B-A3B", "--engine-version", "0.24.0", "--kv-dtype", "fp8", "--prefix-caching", "on",
        "--kv-bytes", "6.01GiB", "--context", "131072",
    )["kv"]  # fmt: skip
    assert (mixture["block_size"], mixture["blocks"], mixture["tokens"]) == (2096, 300, 569_878)


def test_packed_cache_types_are_planned_too(gearshift: Gearshift) -> None:
    flags = ("--engine-version", "0.28.0", "--kv-dtype", "turboquant_4bit_nc", "--kv-bytes", "3.01GiB")
    kv = plan(gearshift, "Qwen--Qwen3.5-27B", *flags, "--context", "172032", "--max-num-seqs", "1")["kv"]
    assert (kv["block_size"], kv["max_context"], kv["concurrency"]) == (3072, 172_032, 1.0)


@pytest.mark.parametrize("config", sorted(CONFIGS.glob("*.config.json")), ids=lambda path: path.name)
def test_every_public_config_is_planned_and_printed(gearshift: Gearshift, config: Path) -> None:
    flags = ("--engine", "vllm", "--weights", str(config), "--gpu", "RTX 5090", "--kv-bytes", "4GiB")
    printed = gearshift("plan", *flags, "--context", "8192", "--max-num-seqs", "8")
    assert printed.exit_code in {0, 1}, printed.stderr
    assert "what would fit" in printed.stdout
    assert "its log says" in printed.stdout
