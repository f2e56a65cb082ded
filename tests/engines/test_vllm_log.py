"""The fold over vLLM logs: our own recordings, and lines in its formats; quoted logs are in test_samples.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gearshift.domain.startup import StartReport
from gearshift.domain.units import GIB
from gearshift.domain.variant import EngineKind
from gearshift.engines import log_fold

Fold = Callable[[EngineKind, str | Path], StartReport]
LOGS = Path(__file__).parent / "logs"
SMOL = LOGS / "own-0.32.0-cpu-smollm2-start-stop.log"
CRASH = LOGS / "own-0.32.0-cpu-tiny-hybrid-mtp3-crash.log"


def said(process: str, message: str, level: str = "INFO") -> str:
    return f"({process} pid=7) {level} 11-29 23:08:33 [file.py:1] {message}"


def test_a_real_start_and_stop_is_read_whole(fold: Fold) -> None:
    report = fold("vllm", SMOL)
    figures = report.figures
    assert report.ready
    assert report.failure is None  # the EngineDeadError of a clean stop is noise
    assert figures.version == "0.32.0"
    assert (figures.kv_pool_bytes, figures.kv_tokens, figures.concurrency) == (GIB, 46_592, 11.38)
    assert (figures.context, figures.engine_init_s) == (4096, 4.17)
    assert (figures.weights_bytes, figures.block_size, figures.graph_bytes) == (None, None, None)


def test_a_real_crash_after_ready_names_what_killed_the_worker(fold: Fold) -> None:
    report = fold("vllm", CRASH)
    assert report.ready
    assert report.failure is not None
    assert report.failure.line == "double free or corruption (!prev)"
    assert (report.figures.speculation_method, report.figures.speculation_tokens) == ("mtp", 3)
    assert (report.figures.kv_tokens, report.figures.block_size) == (829_440, 1152)
    assert report.figures.context == 4096  # the drafter's own 32768 comes second


def test_stages_and_progress_follow_a_real_load() -> None:
    state = log_fold("vllm")
    seen: list[tuple[str, float | None]] = [("starting", None)]
    for line in SMOL.read_text(encoding="utf-8").splitlines():
        state = state.feed(line)
        if (state.report.stage, state.report.progress) != seen[-1]:
            seen.append((state.report.stage, state.report.progress))
    assert seen == [
        ("starting", None),
        ("reading the model's config", None),
        ("starting the engine", None),
        ("loading weights", None),
        ("loading weights", 0.0),
        ("loading weights", 1.0),
        ("allocating the cache", None),
        ("starting the server", None),
        ("ready", None),
    ]


def test_the_warm_up_on_a_cpu_is_not_taken_for_loading_weights() -> None:
    state = log_fold("vllm").feed("Loading safetensors checkpoint shards: 100% Completed | 1/1")
    assert state.feed(said("Worker", "Warming up model for the compilation...")).report.stage == "warming up"


def test_of_a_repainted_bar_the_last_state_counts() -> None:
    title = "Loading safetensors checkpoint shards: "
    bar = f"{title}  0% Completed | 0/3\r{title} 67% Completed | 2/3"
    assert log_fold("vllm").feed(bar).report.progress == 0.67


@pytest.mark.parametrize(
    ("lines", "tokens", "concurrency"),
    [
        (
            ("GPU KV cache size: 1,192,678 tokens", "Maximum concurrency for 262,144 tokens per request: 4.55x"),
            1_192_678,
            4.55,
        ),
        (
            ("GPU KV cache size: 172,032 tokens, Maximum concurrency for 172,032 tokens per request: 1.00x",),
            172_032,
            1.0,
        ),
        (
            ("CPU KV cache size: 46,592 tokens, Maximum concurrency for 4,096 tokens per request: 11.38x",),
            46_592,
            11.38,
        ),
    ],
)
def test_the_pool_is_read_in_each_version_s_wording(
    lines: tuple[str, ...], tokens: int, concurrency: float, fold: Fold
) -> None:
    figures = fold("vllm", "\n".join(said("EngineCore", line) for line in lines)).figures
    assert (figures.kv_tokens, figures.concurrency) == (tokens, concurrency)


@pytest.mark.parametrize(
    "line",
    [
        "Model loading took 20.57 GiB memory and 139.645153 seconds",
        "Model loading took 20.57 GiB and 139.645153 seconds",
        "Model loading took 20.57 GiB",
    ],
)
def test_the_weights_are_read_in_each_version_s_wording(line: str, fold: Fold) -> None:
    assert fold("vllm", said("EngineCore", line)).figures.weights_bytes == round(20.57 * GIB)


def test_ranks_are_summed_but_the_pool_is_the_smallest(fold: Fold) -> None:
    log = "\n".join(
        said(f"Worker_TP{rank}", text)
        for rank in (0, 1)
        for text in (
            f"Model loading took {10 + rank} GiB memory and 2.0 seconds",
            f"Available KV cache memory: {5 - rank}.5 GiB",
            f"Graph capturing finished in 3 secs, took 0.{rank + 1} GiB",
        )
    )
    figures = fold("vllm", log).figures
    assert figures.weights_bytes == 21 * GIB
    assert figures.kv_pool_bytes == round(4.5 * GIB)
    assert figures.graph_bytes == round(0.1 * GIB) + round(0.2 * GIB)
    assert {(buffer.device, buffer.kind) for buffer in figures.buffers} == {
        (f"rank {rank}", kind) for rank in (0, 1) for kind in ("weights", "kv", "graph")
    }


@pytest.mark.parametrize(
    ("processes", "devices"),
    [
        (("Worker_PP0", "Worker_PP1"), ("rank PP0", "rank PP1")),
        (("Worker_PP0_TP1", "Worker_PP1_TP1"), ("rank PP0 TP1", "rank PP1 TP1")),
        (("EngineCore_DP0", "EngineCore_DP1"), ("rank DP0", "rank DP1")),
        (("Worker_TP0_EP0", "Worker_TP1_EP1"), ("rank 0", "rank 1")),
        (("Worker", "EngineCore"), ("rank 0",)),
    ],
)
def test_a_rank_is_a_card_whatever_is_shared_out(
    processes: tuple[str, ...], devices: tuple[str, ...], fold: Fold
) -> None:
    log = "\n".join(said(process, "Model loading took 10.0 GiB memory and 2.0 seconds") for process in processes)
    figures = fold("vllm", log).figures
    assert tuple(buffer.device for buffer in figures.buffers) == devices
    assert figures.weights_bytes == 10 * GIB * len(devices)


def test_what_follows_the_capture_of_graphs_is_no_longer_the_profile(fold: Fold) -> None:
    usage = "Free memory on device. Actual usage is 0.76 GiB for peak activation."
    assert fold("vllm", said("Worker_TP0", usage)).stage == "warming up"


def test_an_excerpt_without_an_end_of_its_start_shows_by_its_figures_that_it_served(fold: Fold) -> None:
    line = said(
        "APIServer", "Engine 000: Avg prompt throughput: 28.9 tokens/s, Avg generation throughput: 22.3 tokens/s"
    )
    assert fold("vllm", line).ready


def test_an_excerpt_without_the_pools_own_line_says_at_the_end_what_is_in_use(fold: Fold) -> None:
    usage = "Free memory on device. Actual usage is 0.76 GiB for peak activation. Current kv cache memory in use is"
    lost = "\n".join(said(f"Worker_TP{rank}", f"{usage} {5 - rank}.85 GiB.") for rank in (0, 1))
    assert fold("vllm", lost).figures.kv_pool_bytes == round(4.85 * GIB)
    whole = said("Worker_TP0", "Available KV cache memory: 5.5 GiB") + "\n" + said("Worker_TP0", f"{usage} 5.49 GiB.")
    assert fold("vllm", whole).figures.kv_pool_bytes == round(5.5 * GIB)


def test_a_pool_asked_for_in_bytes_is_exact_where_the_log_rounds(fold: Fold) -> None:
    log = "\n".join(
        (
            said("APIServer", "non-default args: {'model': 'm', 'kv_cache_memory_bytes': 40000000000}"),
            said("EngineCore", "Initial free memory 139.29 GiB, reserved 37.25 GiB memory for KV Cache as specified"),
        )
    )
    assert fold("vllm", log).figures.kv_pool_bytes == 40_000_000_000


REFUSED = (
    "ValueError: To serve at least one request with the model's max seq len (40960), (4.38 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (1.0 GiB). Based on the available memory, the estimated "
    "maximum model length is 9344. Try increasing `gpu_memory_utilization`."
)
LATER = "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above."
PYDANTIC = """\
Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/vllm/config.py", line 1, in run
pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig
  Value error, User-specified max_model_len (9999) is greater than the derived max_model_len (8192).
    For further information visit https://errors.pydantic.dev/2.12/v/value_error
"""
SPECULATION = """\
pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig
method
  Input should be 'ngram', 'medusa' or 'mtp' [type=literal_error, input_value='foo', input_type=str]
"""
OTHER_SHAPE = "\n".join(
    said("EngineCore", line, "ERROR")
    for line in (
        "EngineCore failed to start.",
        "Traceback (most recent call last):",
        "    assert param.size() == loaded_weight.size(), (",
        "AssertionError: Attempted to load weight (torch.Size([128])) into parameter (torch.Size([256]))",
    )
)
OTHER_VOCABULARY = """\
pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig
  Value error, Target and draft model should have the same vocabulary size. Target model vocab_size=152064. \
Draft model vocab_size=151936. Using models with different tokenizers can cause out-of-bounds errors.
"""


@pytest.mark.parametrize(
    ("log", "cause", "fix"),
    [
        (f"{said('EngineCore', REFUSED, 'ERROR')}\n{LATER}", "4.38 GiB KV cache is needed", "context to 9344"),
        (
            said("Worker_TP1", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.37 GiB.", "ERROR"),
            "Tried to allocate 2.37 GiB",
            "lower context",
        ),
        (PYDANTIC, "User-specified max_model_len (9999)", "lower context"),
        (SPECULATION, "Input should be 'ngram'", "speculation"),
        (OTHER_SHAPE, "load weight (torch.Size([128]))", "128 in the file where the engine built 256"),  # R1-17
        (OTHER_VOCABULARY, "same vocabulary size", "draft model with the target's 152064 tokens (this one has 151936)"),
        ("api_server.py: error: unrecognized arguments: --swap-space", "--swap-space", "remove from args"),
        (
            "api_server.py: error: argument --kv-cache-dtype: invalid choice: 'nope' (choose from 'auto')",
            "invalid choice: 'nope'",
            "correct --kv-cache-dtype",
        ),
        (
            "OSError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/nonexistent/model'.",
            "Repo id must be",
            "weights",
        ),
        ("OSError: [Errno 98] Address already in use", "Address already in use", "port"),
        (
            said(
                "EngineCore",
                "ValueError: Free memory on device cuda:0 (2.1/23.6 GiB) on startup is less than desired GPU memory "
                "utilization (0.92, 21.7 GiB).",
                "ERROR",
            ),
            "Free memory on device cuda:0",
            "gpu-memory-utilization",
        ),
        (
            said("EngineCore", "ValueError: max_num_seqs (1024) exceeds available Mamba cache blocks (556).", "ERROR"),
            "max_num_seqs (1024)",
            "parallel to 556",
        ),
        (LATER, "Engine core initialization failed", None),
        (
            said("EngineCore", "Worker proc VllmWorker-0 died unexpectedly (exit code: -9), shutting down.", "ERROR"),
            "exit code -9",
            None,
        ),
    ],
)
def test_the_engine_s_first_error_or_the_server_s_last_one_is_the_cause(
    log: str, cause: str, fix: str | None, fold: Fold
) -> None:
    failure = fold("vllm", log).failure
    assert failure is not None
    assert cause in failure.cause
    assert failure.line in log.splitlines()
    assert (failure.fix is None) == (fix is None)
    assert fix is None or fix in str(failure.fix)


@pytest.mark.parametrize(
    "line",
    [
        said("Worker", "Failed to create oneDNN linear. Exception: could not create a primitive descriptor", "WARNING"),
        "(APIServer pid=7) [ERROR] `min_frames` is part of Qwen3VLVideoProcessorInitKwargs, but not documented.",
        said(
            "EngineCore",
            "Failed to import from amdsmi with ModuleNotFoundError(\"No module named 'amdsmi'\")",
            "WARNING",
        ),
        "resource_tracker.py:254: UserWarning: resource_tracker: There appear to be 1 leaked shared_memory objects",
        "(APIServer pid=7) KeyboardInterrupt: terminated",
    ],
)
def test_harmless_noise_is_no_failure(line: str, fold: Fold) -> None:
    assert fold("vllm", line).failure is None


def test_an_error_answer_to_a_client_is_no_failure_of_a_ready_server(fold: Fold) -> None:
    log = "INFO:     Application startup complete.\n" + said("APIServer", "ValueError: bad request", "ERROR")
    assert fold("vllm", log).failure is None


def test_warnings_that_change_the_meaning_are_kept_verbatim(fold: Fold) -> None:
    line = "Add 3 padding layers, may waste at most 6.25% KV cache memory"
    assert fold("vllm", "\n".join([said("EngineCore", line, "WARNING")] * 2)).notices == (line,)


def test_speculation_is_read_from_the_arguments_where_the_configuration_s_line_is_cut_off(fold: Fold) -> None:
    asked = (
        "non-default args: {'model': 'm', 'speculative_config': {'method': 'qwen3_5_mtp', 'num_speculative_tokens': 2}}"
    )
    figures = fold("vllm", said("APIServer", asked)).figures
    assert (figures.speculation_method, figures.speculation_tokens) == ("mtp", 2)
    drafter = "Detected MTP model. Sharing target model embedding weights with the draft model."
    figures = fold("vllm", said("EngineCore", drafter)).figures
    assert (figures.speculation_method, figures.speculation_tokens) == ("mtp", None)


def test_the_banner_tells_the_version_of_a_start_that_gets_no_further(fold: Fold) -> None:
    for banner in (" ▄▄ ▄█ █     █ ▀▄▀ █  version 0.27.1", " version 0.27.1", "vLLM API server version 0.27.1"):
        assert fold("vllm", said("APIServer", banner)).figures.version == "0.27.1"


def test_weights_are_taken_from_the_last_memory_line_up_to_0_26(fold: Fold) -> None:
    line = (
        "Free memory on device (31.0/31.4 GiB) on startup. Desired GPU memory utilization is (0.92, 28.9 GiB). "
        "Actual usage is 19.78 GiB for weight, 0.6 GiB for peak activation, 0.23 GiB for non-torch memory, and "
        "0.3 GiB for CUDAGraph memory. Current kv cache memory in use is 8.2 GiB."
    )
    figures = fold("vllm", said("EngineCore", line)).figures
    assert (figures.weights_bytes, figures.kv_pool_bytes) == (round(19.78 * GIB), round(8.2 * GIB))


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        (["error: unrecognized arguments: --swap-space 4"], "unrecognized arguments: --swap-space 4"),
        (
            [said("EngineCore", "AssertionError", "ERROR"), said("APIServer", "RuntimeError: x", "ERROR")],
            "AssertionError",
        ),
        (["[rank0]: torch.OutOfMemoryError: CUDA out of memory."], "torch.OutOfMemoryError: CUDA out of memory."),
        ([said("EngineCore", "Starting to load model x..."), "Killed"], "Killed"),
    ],
)
def test_a_failure_in_few_words_is_one_all_the_same(lines: list[str], cause: str, fold: Fold) -> None:
    failure = fold("vllm", "\n".join(lines)).failure
    assert failure is not None
    assert failure.cause == cause


def test_a_pool_of_less_than_nothing_is_none(fold: Fold) -> None:
    figures = fold("vllm", said("EngineCore", "Available KV cache memory: -1.25 GiB")).figures
    assert (figures.kv_pool_bytes, figures.buffers) == (None, ())


def test_an_error_that_the_start_got_over_is_no_failure(fold: Fold) -> None:
    error = said("EngineCore", "RuntimeError: autotuning failed, falling back", level="ERROR")
    assert fold("vllm", f"{error}\nINFO:     Application startup complete.").failure is None
