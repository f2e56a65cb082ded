"""Log lines as both engines were seen to write them, one by one: what is read from each, and what is left alone.

Lines are in the engines' formats with figures of published starts; the ids are those of docs/readings.md.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gearshift.domain.startup import StartReport
from gearshift.domain.units import GIB, MIB
from gearshift.domain.variant import EngineKind

Fold = Callable[[EngineKind, str | Path], StartReport]


def said(message: str, level: str = "INFO", process: str = "EngineCore") -> str:
    return f"({process} pid=7) {level} 11-29 23:08:33 [file.py:1] {message}"


def known(report: StartReport) -> dict[str, object]:
    """The figures that were read, without the list of buffers behind them."""
    figures = report.figures
    names = (name for name in figures.__dataclass_fields__ if name != "buffers")
    return {name: getattr(figures, name) for name in names if getattr(figures, name) is not None}


@pytest.mark.parametrize(
    ("line", "figures"),
    [
        ("vLLM API server version 0.27.1", {"version": "0.27.1"}),
        ("Using max model len 262144", {"context": 262_144}),
        ("Initializing a V1 LLM engine (v0.27.1) with config: model='m', enforce_eager=False", {"version": "0.27.1"}),
        (
            "Setting attention block size to 1568 tokens to ensure that attention page size is >= mamba page size.",
            {"block_size": 1568},
        ),
        ("Padding mamba page size by 0.13% to ensure that the page sizes are equal.", {}),
        ("Encoder cache will be initialized with a budget of 16384 tokens, and profiled with 1 image items", {}),
        ("Model loading took 19.75 GiB memory and 48.5 seconds", {"weights_bytes": round(19.75 * GIB)}),
        ("Loading weights took 12.31 seconds", {}),
        ("Available KV cache memory: 48.6 GiB", {"kv_pool_bytes": round(48.6 * GIB)}),
        ("Estimated CUDA graph memory: -0.81 GiB total", {}),
        ("Graph capturing finished in 7 secs, took 0.17 GiB", {"graph_bytes": round(0.17 * GIB)}),
        ("GPU KV cache size: 1,192,678 tokens", {"kv_tokens": 1_192_678}),
        ("Maximum concurrency for 262,144 tokens per request: 4.55x", {"concurrency": 4.55, "context": 262_144}),
        (
            "init engine (profile, create kv cache, warmup model) took 535.2 s (compilation: 121.6 s)",
            {"engine_init_s": 535.2},
        ),
        ("init engine (profile, create kv cache, warmup model) took 21.5 seconds", {"engine_init_s": 21.5}),
        ("Explicitly set (1.0/14.2) GiB for KV cache on node 0.", {"kv_pool_bytes": GIB}),
        (
            "Auto set (3.5/7.0) GiB for KV cache on node 0, with 4.5 GiB requested memory for the worker.",
            {"kv_pool_bytes": round(3.5 * GIB)},
        ),
        (
            "Initial free memory 139.29 GiB, reserved 37.25 GiB memory for KV Cache as specified",
            {"kv_pool_bytes": round(37.25 * GIB)},
        ),
        (
            "Free memory on device (94.05/95.01 GiB). 0.76 GiB for peak activation, and 0.32 GiB for CUDAGraph memory.",
            {"compute_bytes": round(0.76 * GIB), "graph_bytes": round(0.32 * GIB)},
        ),
        (
            (
                "Free memory on device (15.28/15.51 GiB) on startup. Replace gpu_memory_utilization config with"
                " `--kv-cache-memory=3453165241` (3.22 GiB) to fit into requested memory,"
                " or `--kv-cache-memory=4542824448` (4.23 GiB) to fully utilize gpu memory."
            ),
            {"pool_suggestions": (3_453_165_241, 4_542_824_448)},
        ),
        (
            "Detected MTP model. Sharing target model embedding weights with the draft model.",
            {"speculation_method": "mtp"},
        ),
        ("SpecDecoding metrics: Mean acceptance length: 2.86, Per-position acceptance rate: 0.964, 0.893", {}),
    ],
)
def test_a_line_of_vllm_s_start_gives_its_figure_and_no_other(
    line: str, figures: dict[str, object], fold: Fold
) -> None:
    report = fold("vllm", said(line))
    assert known(report) == figures
    assert (report.failure, report.notices) == (None, ())


@pytest.mark.parametrize(
    "line",
    [
        "Prefix caching in Mamba cache 'align' mode is currently experimental. Please report any issues.",  # R1 trap 4
        "Using uncalibrated q_scale 1.0 and/or prob_scale 1.0 with fp8 attention.",  # R1: FP8 scales of 1.0
        "Add 3 padding layers, may waste at most 6.25% KV cache memory",
        "Enabling num_speculative_tokens > 1 may run one MTP layer often,which may result in lower acceptance rate",
        "CUDAGraphMode.FULL_AND_PIECEWISE is not supported with spec-decode for attention backend FlashInferBackend",
        "min_p and logit_bias parameters won't work with speculative decoding.",
        "max_num_scheduled_tokens is set to 8189 based on the speculative decoding settings.",
        "Unknown vLLM environment variable detected: VLLM_ATTENTION_BACKEND",
        "sleep mode is not supported on CPU, ignore it.",
        "no KV cache group could be identified as the draft model's.",
    ],
)
@pytest.mark.parametrize("level", ["WARNING", "INFO"])
def test_what_changes_the_meaning_of_a_start_is_noticed_at_either_level(line: str, level: str, fold: Fold) -> None:
    prefix = "Warning: " if level == "INFO" else ""  # as vLLM 0.23 wrote the first of these
    report = fold("vllm", said(prefix + line, level))
    assert report.notices == (line,)
    assert report.failure is None


@pytest.mark.parametrize(
    ("line", "cause", "fix"),
    [
        ("RuntimeError: CUDA error: an illegal memory access was encountered", "illegal", "draft 2 or 3"),  # R2-16
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.37 GiB.", "2.37", "lower context"),  # R1-06
        ("ValueError: No available memory for the cache blocks. Try increasing it.", "cache blocks", "leave no room"),
        (
            "ValueError: In Mamba cache align mode, block_size (1568) must be <= max_num_batched_tokens (512).",
            "1568",
            "max-num-batched-tokens to 1568",
        ),
        ("ValueError: max_num_seqs (1024) exceeds available Mamba cache blocks (939).", "939", "parallel to 939"),
        ("ValueError: Sleep mode is not supported on current platform.", "Sleep mode", "remove sleep"),
        ("AssertionError: Synthetic acceptance not supported with CPU sampling", "Synthetic", "remove rejection_"),
        (
            "ValueError: Available memory on node 0 (11.56/14.21 GiB) on startup is less than desired (0.92).",
            "11.56/14.21",
            "set kv_bytes",
        ),
        (
            "ValueError: Available memory on node 0 (1.5/14.21 GiB) on kv cache allocation is less than requested.",
            "kv cache allocation",
            "set kv_bytes",
        ),
        ("AttributeError: 'list' object has no attribute 'zero_'", "zero_", "remove sleep"),  # the wake on the H200
        ("RuntimeError: Could not find nvcc and default cuda_home='/usr/local/cuda'", "nvcc", "CUDA_HOME"),
    ],
)
def test_a_failure_of_vllm_that_was_published_has_its_cause_and_its_way_out(
    line: str, cause: str, fix: str | None, fold: Fold
) -> None:
    failure = fold("vllm", said(line, "ERROR")).failure
    assert failure is not None
    assert cause in failure.cause
    assert fix in failure.fix if fix and failure.fix else failure.fix == fix


@pytest.mark.parametrize(
    "line",
    [
        said("[shutdown] Process manager: force killing remaining process EngineCore pid 7"),
        said("Triton kernel JIT compilation during inference: x. This causes a latency spike;", "WARNING"),
        said("Prefetching checkpoint files: 30% (3/3)"),
        "[ERROR] 'modelopt' is not documented in the docstring",
        "nanobind: leaked 4 instances!",
        said("Exception: could not create a primitive descriptor for a matmul primitive", "WARNING"),
    ],
)
def test_noise_that_was_published_is_no_failure(line: str, fold: Fold) -> None:
    report = fold("vllm", line)
    assert (report.failure, report.ready, known(report)) == (None, False, {})


@pytest.mark.parametrize(
    ("line", "figures"),
    [
        ("load_tensors: offloaded 20/33 layers to GPU", {"layers_offloaded": (20, 33)}),
        ("load_tensors:      Vulkan0 model buffer size = 18163.06 MiB", {"weights_bytes": round(18163.06 * MIB)}),
        ("llama_kv_cache:    Vulkan0 KV buffer size =   512.00 MiB", {"kv_pool_bytes": 512 * MIB}),
        (
            "llama_kv_cache: size =  512.00 MiB (  8192 cells,  16 layers,  1/1 seqs), K (f16): 256.00 MiB",
            {"kv_tokens": 8192, "kv_pool_bytes": 512 * MIB},
        ),
        ("llama_memory_recurrent:    Vulkan0 RS buffer size =   448.88 MiB", {"state_bytes": round(448.88 * MIB)}),
        ("sched_reserve:    Vulkan0 compute buffer size =   560.06 MiB", {"compute_bytes": round(560.06 * MIB)}),
        ("llama_kv_cache:     Meta() KV buffer size =   256.00 MiB", {"kv_pool_bytes": 256 * MIB}),
        ("llama_context:  CUDA_Host  output buffer size =     0.95 MiB", {}),
        ("srv    load_model: prompt cache is enabled, size limit: 8192 MiB", {}),
    ],
)
def test_a_line_of_llama_server_s_start_gives_its_figure_and_no_other(
    line: str, figures: dict[str, object], fold: Fold
) -> None:
    report = fold("llama.cpp", f"0.01.000.000 I {line}")
    assert {name: value for name, value in known(report).items() if value != 0} == figures
    assert report.failure is None


@pytest.mark.parametrize(
    ("line", "fix"),
    [
        ("ggml_backend_cuda: allocating 4096.00 MiB on device 1: cudaMalloc failed: out of memory", "lower context"),
        ("ggml_gallocr_reserve_n_impl: failed to allocate CUDA1 buffer of size 4294967296", "lower context"),
        ("graph_reserve: failed to allocate compute buffers", "lower context"),
        *(
            (f"llama_init_from_model: failed to initialize the context: failed to allocate {what}", "lower context")
            for what in ("compute pp buffers", "compute tg buffers", "buffer for kv cache", "buffer for rs cache")
        ),
        ("llama_model_load: error loading model: unable to allocate CUDA0 buffer", "lower context"),
        ("llama_model_load: error loading model: device CUDA0 does not support split buffers", "layer or tensor"),
        ("llama_model_load: error loading model: llama_model_loader: failed to load model from /m.gguf", "weights"),
        ("llama_init_from_model: quantized V cache was requested, but this requires Flash Attention", "flash-attn"),
        ("common_init_result: HTTPS is not supported. Please rebuild with one of:", "fetch the weights"),
    ],
)
def test_a_failure_of_llama_cpp_that_was_published_has_its_way_out(line: str, fix: str, fold: Fold) -> None:
    log = f"0.09.000.000 E {line}\n0.09.000.001 E srv    load_model: failed to load model, ''"
    failure = fold("llama.cpp", log).failure
    assert failure is not None
    assert failure.line == log.splitlines()[0]
    assert failure.fix is not None
    assert fix in failure.fix


@pytest.mark.parametrize(
    "line",
    [
        "W llama_context: backend sampling not supported with SPLIT_MODE_TENSOR; using CPU",  # R3 trap 7
        "W spec common_specu: backend offload failed for seq_id=0; using CPU sampler",
        "W srv    load_model: cache_reuse is not supported by this context, it will be disabled",
        "W srv    load_model: the slot context (262144) exceeds the training context of the model (131072) - capping",
        "E srv    load_model: failed to initialize speculative decoding context: out of luck",
        "W sched_reserve: compute buffer allocation failed, retrying without pipeline parallelism",
        "W LLAMA_ARG_HOST environment variable is set, but will be overwritten by command line argument --host",
    ],
)
def test_what_llama_cpp_says_in_one_line_only_is_noticed(line: str, fold: Fold) -> None:
    report = fold("llama.cpp", f"0.09.000.000 {line}")
    assert report.notices == (line[2:],)
    assert report.failure is None
