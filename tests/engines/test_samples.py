"""Public logs, read in place where the samples folder is there (GEARSHIFT_SAMPLES, or ../shared/samples).

They may not be copied here. What each is good for, and the expected totals, are in the folder's SOURCES.md.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from gearshift.domain.startup import StartFigures, StartReport
from gearshift.domain.units import GIB, MIB
from gearshift.domain.variant import EngineKind
from gearshift.engines.starts import read_starts

Fold = Callable[[EngineKind, str | Path], StartReport]
REPOSITORY = Path(__file__).parents[2]
SAMPLES = Path(os.environ.get("GEARSHIFT_SAMPLES") or REPOSITORY.parent / "shared" / "samples")

pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason="the samples folder is not here")


def mib_by_device(figures: StartFigures) -> dict[str, float]:
    totals: Counter[str] = Counter()
    for buffer in figures.buffers:
        totals[buffer.device] += buffer.bytes
    return {device: round(count / MIB, 2) for device, count in totals.items()}


def figures_of(fold: Fold, engine: EngineKind, start: str) -> StartFigures:
    folder = {"llama.cpp": "llamacpp-logs", "vllm": "vllm-logs"}[engine]
    (log,) = (SAMPLES / folder).glob(f"{start}*.log")
    return fold(engine, log).figures


@pytest.mark.parametrize(
    ("log", "totals"),
    [
        ("01", {"Vulkan0": 20236.06}),
        ("02", {"Vulkan0": 8254.70}),
        ("03", {"Vulkan1": 4080.42, "CPU": 116.94}),
        ("04", {"CUDA0": 22847.54, "": 887.99}),
        ("05", {"CUDA0": 31092.27, "CUDA1": 38177.65, "": 1757.55}),
        ("06", {"CUDA0": 182.77, "CUDA1": 193.99}),
        ("07", {"Meta()": 8666.36}),
    ],
)
def test_llamacpp_device_totals_are_those_published(log: str, totals: dict[str, float], fold: Fold) -> None:
    found = mib_by_device(figures_of(fold, "llama.cpp", log))
    assert {device: found[device] for device in totals} == totals


@pytest.mark.parametrize(
    ("log", "kv", "state", "context"),
    [
        ("01", 512 + 32, 448.88, 8192),
        ("02", 128 + 960, None, 8192),
        ("03", 160, 29.31, 8192),
        ("04", 4352 + 272, 598.5, 131072),
        ("05", 2 * 16384 + 2048, 311.72 + 286.78, None),
    ],
)
def test_llamacpp_cache_and_state_are_those_published(
    log: str, kv: float, state: float | None, context: int | None, fold: Fold
) -> None:
    figures = figures_of(fold, "llama.cpp", log)
    assert figures.kv_pool_bytes == kv * MIB
    assert figures.state_bytes == (None if state is None else pytest.approx(state * MIB, abs=2))
    assert figures.context == context


@pytest.mark.parametrize(("log", "layers"), [("01", (66, 66)), ("02", (49, 49)), ("03", (20, 33)), ("05", None)])
def test_llamacpp_offloaded_layers_are_read(log: str, layers: tuple[int, int] | None, fold: Fold) -> None:
    assert figures_of(fold, "llama.cpp", log).layers_offloaded == layers


def test_llamacpp_versions_and_speculation_are_read(fold: Fold) -> None:
    newest, fork = figures_of(fold, "llama.cpp", "01"), figures_of(fold, "llama.cpp", "04")
    assert (newest.version, newest.speculation_method, newest.speculation_tokens) == ("11146", "mtp", 2)
    assert (fork.version, fork.speculation_method, fork.speculation_tokens) == ("b484-2c4055912", "mtp", None)


@pytest.mark.parametrize(
    ("log", "pool_gib", "tokens", "concurrency", "block"),
    [
        ("0.23.1", 48.6, 1_394_129, 5.32, 1600),
        ("0.24.0", 9.84, 619_202, 2.36, None),  # the last of four
        ("0.27.1-4x", 27.85, 621_392, 18.96, None),
        ("0.28dev-16gb-27b-exl3-turboquant-autofit-cold", 3.01, 172_032, 1.0, 3072),
        ("0.28dev-16gb-27b-exl3-turboquant-autofit-warm", 3.41, 196_608, 1.0, 3072),
    ],
)
def test_vllm_pools_are_those_published(
    log: str, pool_gib: float, tokens: int, concurrency: float, block: int | None, fold: Fold
) -> None:
    figures = figures_of(fold, "vllm", log)
    assert figures.kv_pool_bytes == round(pool_gib * GIB)
    assert (figures.kv_tokens, figures.concurrency, figures.block_size) == (tokens, concurrency, block)


@pytest.mark.parametrize(
    ("log", "weights_gib", "graphs_gib", "activation_gib"),
    [
        ("0.23.1", 20.57, 0.23, None),
        ("0.27.1-a6000", 19.75, None, None),
        ("0.27.1-4x", 55.19, 4 * 0.32, 4 * 0.76),
        ("0.28dev-16gb-27b-exl3-turboquant-autofit-cold", 10.24, 0.04, 0.79),
        ("0.28dev-16gb-27b-exl3-turboquant-autofit-warm", 10.24, 0.04, 0.40),
    ],
)
def test_vllm_ledger_lines_are_read(
    log: str, weights_gib: float, graphs_gib: float | None, activation_gib: float | None, fold: Fold
) -> None:
    figures = figures_of(fold, "vllm", log)
    assert figures.weights_bytes == round(weights_gib * GIB)
    assert figures.graph_bytes == (None if graphs_gib is None else pytest.approx(graphs_gib * GIB, abs=4))
    assert figures.compute_bytes == (None if activation_gib is None else pytest.approx(activation_gib * GIB, abs=4))


def test_vllm_s_refusal_is_the_cause_and_says_what_would_fit(fold: Fold) -> None:
    report = fold("vllm", next((SAMPLES / "vllm-logs").glob("0.28-cpu-refusal*")))
    assert report.failure is not None
    assert report.failure.cause.startswith("ValueError: To serve at least one request")
    assert report.failure.fix == "set context to 9344 or less, or give the cache at least 4.38 GiB per GPU (kv_bytes)"


def test_the_h200_start_has_its_exact_pool(fold: Fold) -> None:
    report = fold("vllm", SAMPLES / "h200" / "s2.log")
    figures = report.figures
    assert report.ready
    assert (figures.version, figures.kv_pool_bytes, figures.kv_tokens) == ("0.25.1", 40_000_000_000, 1_192_678)
    assert (figures.concurrency, figures.block_size, figures.engine_init_s) == (4.55, 1568, 355.88)
    assert figures.weights_bytes == round(27.64 * GIB)
    assert figures.graph_bytes == round(0.17 * GIB)


def test_the_failed_wake_is_the_cause_in_a_log_with_carriage_returns(fold: Fold) -> None:
    report = fold("vllm", SAMPLES / "h200" / "sleep-wake-failure.log")
    assert report.ready
    assert report.failure is not None
    assert report.failure.cause == "AttributeError: 'list' object has no attribute 'zero_'"


@pytest.mark.parametrize("log", ["01", "02", "04", "05", "07"])
def test_logs_that_reach_serving_are_ready(log: str, fold: Fold) -> None:
    assert fold("llama.cpp", next((SAMPLES / "llamacpp-logs").glob(f"{log}*.log"))).ready


def test_logs_that_just_end_are_neither_ready_nor_failed(fold: Fold) -> None:
    for log in ("vllm-logs/0.28dev-16gb-27b-exl3-turboquant-autofit-cold.log", "llamacpp-logs/06*.log"):
        report = fold("vllm" if log.startswith("vllm") else "llama.cpp", next(SAMPLES.glob(log)))
        assert (report.ready, report.failure) == (False, None)


@pytest.mark.parametrize(
    ("log", "tokens"),
    [
        ("vllm-logs/0.24.0-and-0.20.2-kv-pools-tp1-tp2.excerpts.log", [567_978, 569_878, 300_220, 619_202]),
        ("vllm-logs/0.23.1-gb10-27b-nvfp4-mtp2.log", [1_394_129]),
        ("h200/s2.log", [1_192_678]),
        ("h200/sleep-wake-failure.log", [531_114]),
        ("llamacpp-logs/01-b11146-vulkan-rtx3090-qwen3.8-27b-q5km-mtp-n2-np1.log", [8192]),
    ],
)
def test_the_starts_in_a_file_are_counted_right(log: str, tokens: list[int]) -> None:
    starts = read_starts((SAMPLES / log).read_text(encoding="utf-8").splitlines())
    assert [start.report.figures.kv_tokens for start in starts] == tokens


def test_start_times_span_first_line_to_ready() -> None:
    (h200,) = read_starts((SAMPLES / "h200" / "s2.log").read_text(encoding="utf-8").splitlines())
    assert h200.start_s == 404.0
