"""The fold over llama-server logs, on lines in its formats; the sample logs are in test_samples.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from gearshift.domain.startup import StartReport
from gearshift.domain.units import MIB
from gearshift.domain.variant import EngineKind
from gearshift.engines import log_fold

Fold = Callable[[EngineKind, str | Path], StartReport]

DRAFTED = """\
0.00.002.283 I cmn  common_param: common_params_print_info: build 11434 (unknown) with GNU 12.2.0 for Linux x86_64
0.01.000.000 I load_tensors: loading model tensors, this can take a while... (load_mode = mmap)
0.02.000.000 I load_tensors: offloaded 9/9 layers to GPU
0.02.000.001 I load_tensors:   CPU_Mapped model buffer size =    10.00 MiB
0.02.000.002 I load_tensors:        CUDA0 model buffer size =   100.50 MiB
0.03.000.000 I llama_context: constructing llama_context
0.03.000.001 I llama_context: n_ctx                 = 4096
0.03.000.002 I llama_context:  CUDA_Host  output buffer size =     0.50 MiB
0.03.000.003 I llama_kv_cache:      CUDA0 KV buffer size =    64.00 MiB
0.03.000.004 I llama_kv_cache: size =   64.00 MiB (  4096 cells,   8 layers,  1/1 seqs), K (f16): 32.00 MiB
0.03.000.005 I llama_memory_recurrent:      CUDA0 RS buffer size =     8.00 MiB
0.03.000.006 I sched_reserve:      CUDA0 compute buffer size =    20.00 MiB
0.03.000.007 I cmn  common_init_: warming up the model with an empty run - please wait ...
0.04.000.000 I common_speculative_init_result: creating MTP draft context against the target model 'm.gguf'
0.04.000.001 I llama_context: constructing llama_context
0.04.000.002 I llama_kv_cache:      CUDA0 KV buffer size =     4.00 MiB
0.04.000.003 I sched_reserve:      CUDA0 compute buffer size =    11.00 MiB
0.04.000.004 I spec common_specu: adding speculative implementation 'draft-mtp'
0.04.000.005 I spec common_specu: - n_max=3, n_min=0, p_min=0.00
0.04.000.006 I sched_reserve:      CUDA0 compute buffer size =    12.00 MiB
0.05.000.000 I srv  llama_server: model loaded
"""


def test_target_and_draft_contexts_are_told_apart(fold: Fold) -> None:
    report = fold("llama.cpp", DRAFTED)
    figures = report.figures
    assert report.ready
    assert (figures.version, figures.context, figures.kv_tokens) == ("11434", 4096, 4096)
    assert figures.layers_offloaded == (9, 9)
    assert (figures.speculation_method, figures.speculation_tokens) == ("mtp", 3)
    assert figures.weights_bytes == 100.5 * MIB
    assert figures.kv_pool_bytes == 68 * MIB
    assert figures.state_bytes == 8 * MIB
    assert figures.compute_bytes == 32 * MIB  # the draft's second reservation replaces its first
    draft = {(buffer.kind, buffer.bytes) for buffer in figures.buffers if buffer.context == "draft"}
    assert draft == {("kv", 4 * MIB), ("compute", 12 * MIB)}
    assert {buffer.device for buffer in figures.buffers if buffer.host} == {"CPU_Mapped", "CUDA_Host"}


def test_without_the_announcing_lines_the_order_tells_the_contexts_apart(fold: Fold) -> None:
    excerpt = "\n".join(line for line in DRAFTED.splitlines() if "constructing" not in line and "creating" not in line)
    assert fold("llama.cpp", excerpt).figures == fold("llama.cpp", DRAFTED).figures


def test_the_two_caches_of_a_sliding_window_model_add_up(fold: Fold) -> None:
    log = """\
        llama_kv_cache_iswa: creating non-SWA KV cache, size = 8192 cells
        llama_kv_cache:    Vulkan0 KV buffer size =   128.00 MiB
        llama_kv_cache_iswa: creating     SWA KV cache, size = 3072 cells
        llama_kv_cache:    Vulkan0 KV buffer size =   960.00 MiB"""
    assert fold("llama.cpp", dedent(log)).figures.kv_pool_bytes == 1088 * MIB


def test_a_probe_before_the_load_is_forgotten(fold: Fold) -> None:
    probe = """\
        load_tensors: CUDA0 model buffer size = 0.00 MiB
        llama_kv_cache: CUDA0 KV buffer size = 0.00 MiB
        llama_memory_recurrent: CUDA0 RS buffer size = 8.00 MiB
        sched_reserve: CUDA0 compute buffer size = 20.00 MiB
        """
    assert fold("llama.cpp", dedent(probe) + DRAFTED).figures == fold("llama.cpp", DRAFTED).figures


def test_a_second_start_in_the_same_file_begins_anew(fold: Fold) -> None:
    again = "0.00.001.000 I srv  llama_server: initializing ...\n"
    report = fold("llama.cpp", DRAFTED + again)
    assert not report.ready
    assert report.figures.weights_bytes is None
    assert fold("llama.cpp", DRAFTED + again + DRAFTED) == fold("llama.cpp", DRAFTED)


def test_children_of_a_router_do_not_mix(fold: Fold) -> None:
    one, two = "[100] ", "[200] "
    lines = DRAFTED.splitlines()
    other = [line.replace("100.50", "7.00") for line in lines]
    mixed = [text for pair in zip(lines, other, strict=True) for text in (one + pair[0], two + pair[1])]
    assert fold("llama.cpp", "\n".join(mixed)).figures.weights_bytes == 7 * MIB
    assert fold("llama.cpp", "\n".join([*mixed, *(one + line for line in lines)])).figures.weights_bytes == 100.5 * MIB


@pytest.mark.parametrize(
    "decorate",
    [
        lambda line: f"data: {line}",
        lambda line: f"2026-05-14 22:14:13.264 | {line}",
        lambda line: f"2026-05-14T22:14:13.264Z {line}",
        lambda line: f"\x1b[32m{line}\x1b[0m",
        lambda line: f"{line}\r",
    ],
)
def test_what_wrappers_add_is_taken_off(decorate: Callable[[str], str], fold: Fold) -> None:
    log = "\n".join(decorate(line) for line in DRAFTED.splitlines())
    assert fold("llama.cpp", log) == fold("llama.cpp", DRAFTED)


def test_a_cpu_run_s_buffers_are_its_device_s(fold: Fold) -> None:
    log = """\
        0.00.223.903 I load_tensors:   CPU_Mapped model buffer size =    92.10 MiB
        0.00.224.934 I llama_context:        CPU  output buffer size =     0.38 MiB
        0.00.225.038 I llama_kv_cache:        CPU KV buffer size =    90.00 MiB
        0.00.267.100 I sched_reserve:        CPU compute buffer size =    32.02 MiB"""
    figures = fold("llama.cpp", dedent(log)).figures
    assert (figures.weights_bytes, figures.kv_pool_bytes) == (round(92.1 * MIB), 90 * MIB)


def test_the_vision_projector_is_kept_apart(fold: Fold) -> None:
    log = DRAFTED + dedent("""\
        load_hparams: model size:         887.99 MiB
        alloc_compute_meta:      CUDA0 compute buffer size =   248.10 MiB""")
    figures = fold("llama.cpp", log).figures
    assert figures.weights_bytes == 100.5 * MIB  # which device holds the projector's weights the log does not say
    assert figures.compute_bytes == 32 * MIB + round(248.1 * MIB)
    assert {buffer.kind for buffer in figures.buffers if buffer.context == "vision"} == {"weights", "compute"}


def test_stages_follow_the_load() -> None:
    state, seen = log_fold("llama.cpp"), ["starting"]
    for line in DRAFTED.splitlines():
        state = state.feed(line)
        if state.report.stage != seen[-1]:
            seen.append(state.report.stage)
    assert seen == [
        "starting",
        "loading weights",
        "allocating the cache",
        "warming up",
        "creating the draft context",
        "allocating the cache",
        "ready",
    ]


MISSING = """\
0.00.005.278 E common_fit_params: encountered an error while trying to fit params: failed to load model
0.00.005.300 E gguf_init_from_file: failed to open GGUF file '/nonexist.gguf' (No such file or directory)
0.00.005.303 E llama_model_load: error loading model: llama_model_loader: failed to load model from /nonexist.gguf
0.00.005.311 E srv    load_model: failed to load model, '/nonexist.gguf'
0.00.005.731 E srv  llama_server: exiting due to model loading error
"""
OUT_OF_MEMORY = """\
0.09.000.000 W common_fit_params: failed to fit params: n_gpu_layers already set by user to 99, abort
0.09.100.000 E ggml_backend_cuda: allocating 4096.00 MiB on device 1: cudaMalloc failed: out of memory
0.09.100.001 E ggml_gallocr_reserve_n_impl: failed to allocate CUDA1 buffer of size 4294967296
0.09.100.002 W sched_reserve: compute buffer allocation failed, retrying without pipeline parallelism
0.09.100.003 E llama_init_from_model: failed to initialize the context: failed to allocate compute pp buffers
"""
NO_MTP = """\
0.00.354.149 W llama_init_from_model: context type MTP requested but model doesn't contain MTP layers
0.00.354.149 E common_speculative_init_result: failed to create MTP context
0.00.354.156 E srv    load_model: failed to create MTP context
"""
OTHER_SHAPE = """\
0.00.354.149 E llama_model_load: error loading model: check_tensor_dims: tensor 'blk.0.attn_q_norm.weight' has wrong \
shape; expected    256, got    128,      1,      1,      1
0.00.354.156 E srv    load_model: failed to load draft model, '/d.gguf'
"""
IDLE_DRAFTER = """\
0.04.000.001 E spec common_specu: the target and draft vocabs are not compatible
0.04.000.002 E srv    load_model: failed to initialize speculative decoding context: draft model vocab type must match \
target model to use speculation
"""


@pytest.mark.parametrize(
    ("log", "cause", "fix"),
    [
        (MISSING, "failed to open GGUF file '/nonexist.gguf'", "weights"),
        ("0.00.004.845 E gguf_init_from_reader: invalid magic characters: 'root', expected 'GGUF'", "magic", "weights"),
        (OUT_OF_MEMORY, "allocating 4096.00 MiB on device 1: cudaMalloc failed", "lower context"),
        (NO_MTP, "doesn't contain MTP layers", "speculation"),
        (OTHER_SHAPE, "'blk.0.attn_q_norm.weight' has wrong shape", "128 in the file where the engine built 256"),
        ("error: invalid argument: --no-mmap", "--no-mmap", "load-mode"),
        ("error: invalid argument: --frobnicate", "--frobnicate", "remove --frobnicate"),
        (
            "0.00.158.518 E llama_init_from_model: quantized V cache requires flash_attn to be enabled",
            "V cache",
            "flash-attn",
        ),
        ("0.00.031.337 E llama_model_load: error loading model: key not found in model: qwen35.x", "key", "convert it"),
        (
            'error while handling argument "--draft": the argument has been removed. use --spec-draft-n-max',
            "has been removed",
            "write --spec-draft-n-max",
        ),
        ('error while handling argument "-c": stoi', "stoi", "correct the value of -c"),
        (
            "0.00.002.722 E srv         start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 18997",
            "couldn't bind",
            "port",
        ),
        (
            "llama_model_load: error loading model: device CUDA0 does not support split buffers",
            "split",
            "layer or tensor",
        ),
        ("terminate called after throwing an instance of 'std::bad_alloc'", "bad_alloc", None),
    ],
)
def test_the_first_real_error_is_the_cause(log: str, cause: str, fix: str | None, fold: Fold) -> None:
    failure = fold("llama.cpp", log).failure
    assert failure is not None
    assert cause in failure.cause
    assert failure.line in log.splitlines()
    assert fix in failure.fix if fix and failure.fix else failure.fix == fix


def test_a_fit_that_failed_and_a_retry_are_notices_at_most(fold: Fold) -> None:
    log = "\n".join(line for line in OUT_OF_MEMORY.splitlines() if " W " in line)
    report = fold("llama.cpp", log)
    assert report.failure is None
    assert ["retrying without pipeline parallelism" in notice for notice in report.notices] == [True]


def test_a_drafter_that_is_left_idle_is_a_notice_of_a_start_that_went_on(fold: Fold) -> None:
    served = fold("llama.cpp", DRAFTED.replace("0.05.000.000", IDLE_DRAFTER + "0.05.000.000"))
    assert served.ready
    assert served.failure is None
    assert ["failed to initialize speculative decoding" in notice for notice in served.notices] == [False, True]


def test_a_refused_request_is_no_failure_but_a_cuda_error_is(fold: Fold) -> None:
    refused = "0.09.000.000 E srv    send_error: task id = 3, error: request (9000 tokens) exceeds the context size\n"
    assert fold("llama.cpp", DRAFTED + refused).failure is None
    crashed = fold("llama.cpp", DRAFTED + refused + "CUDA error: out of memory\n")
    assert crashed.ready
    assert crashed.failure is not None
    assert crashed.failure.cause == "CUDA error: out of memory"


SHARED_OUT = """\
0.14.275.753 I load_tensors:       Meta() model buffer size =  7252.51 MiB
0.16.135.888 I llama_kv_cache: size = 1024.00 MiB (262144 cells,  16 layers,  4/1 seqs), K (f16): 512.00 MiB
0.16.162.940 I llama_memory_recurrent:     Meta() RS buffer size =   448.88 MiB
0.17.783.489 I llama_kv_cache:     Meta() KV buffer size =   256.00 MiB
"""


def test_a_cache_that_only_its_sum_tells_of_is_counted_unless_cards_share_it_out(fold: Fold) -> None:
    assert fold("llama.cpp", SHARED_OUT).figures.kv_pool_bytes is None  # 256 MiB are one card's of the draft alone
    one_card = fold("llama.cpp", SHARED_OUT.replace("Meta()", "CUDA0")).figures
    assert one_card.kv_pool_bytes == (1024 + 256) * MIB


@pytest.mark.parametrize(
    ("cut", "tokens"), [("2048 cells,   8 layers,  4/4 seqs", 8192), ("4096 cells,   8 layers,  4/1 seqs", 4096)]
)
def test_the_cells_of_slots_apart_are_added_up(cut: str, tokens: int, fold: Fold) -> None:
    assert fold("llama.cpp", DRAFTED.replace("4096 cells,   8 layers,  1/1 seqs", cut)).figures.kv_tokens == tokens


def test_without_the_summing_line_the_context_s_length_is_what_the_cache_holds(fold: Fold) -> None:
    lines = [line for line in DRAFTED.splitlines() if " cells," not in line]
    assert fold("llama.cpp", "\n".join(lines)).figures.kv_tokens == 4096


def test_a_draft_context_is_speculation_although_its_length_is_not_told(fold: Fold) -> None:
    lines = [line for line in DRAFTED.splitlines() if "common_specu:" not in line]
    figures = fold("llama.cpp", "\n".join(lines)).figures
    assert (figures.speculation_method, figures.speculation_tokens) == ("mtp", None)


def test_an_error_that_the_load_got_over_is_no_failure(fold: Fold) -> None:
    first, *rest = DRAFTED.splitlines()
    lost = "0.00.003.000 E ggml_cuda_init: failed to initialize CUDA: no CUDA-capable device is detected"
    assert fold("llama.cpp", "\n".join([first, lost, *rest])).failure is None
