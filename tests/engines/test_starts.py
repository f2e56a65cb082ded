"""Log files: whose they are, the starts in them, the time each took."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.domain.units import GIB, MIB
from gearshift.engines.starts import clock, engine_of, read_starts

SMOL = Path(__file__).parent / "logs" / "own-0.32.0-cpu-smollm2-start-stop.log"
LLAMACPP = """\
0.00.001.096 I srv  llama_server: initializing ...
0.00.002.283 I cmn  common_param: common_params_print_info: build 11434 (unknown) with GNU 12.2.0 for Linux x86_64
0.00.004.300 I srv    load_model: loading model 'smol.gguf'
0.00.223.903 I load_tensors:   CPU_Mapped model buffer size =    92.10 MiB
1.00.308.057 I srv  llama_server: model loaded
"""


@pytest.mark.parametrize(
    ("line", "engine"),
    [
        ("(EngineCore pid=7) INFO 11-29 23:08:33 [core.py:1] x", "vllm"),
        ("(Worker_TP0 pid=7) INFO 11-29 23:08:33 [core.py:1] x", "vllm"),
        ("api_server.py: error: unrecognized arguments: --swap-space", "vllm"),
        ("vllm: error: unrecognized arguments: --swap-space", "vllm"),
        ("pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig", "vllm"),
        ("llama_kv_cache:    Vulkan0 KV buffer size =   512.00 MiB", "llama.cpp"),
        ("error: invalid argument: --no-mmap", "llama.cpp"),
        ("2026-05-14 22:14:13.294 | srv    load_model: loading model 'x'", "llama.cpp"),
        ("Listening on port 80", "command"),
    ],
)
def test_a_log_tells_whose_it_is(line: str, engine: str) -> None:
    assert engine_of(["", "something", line]) == engine


def test_each_start_in_a_file_is_its_own() -> None:
    first, second = read_starts((LLAMACPP + LLAMACPP.replace("92.10", "10.00")).splitlines())
    assert (first.report.figures.weights_bytes, second.report.figures.weights_bytes) == (round(92.1 * MIB), 10 * MIB)
    assert first.report.ready
    assert second.report.ready
    assert first.start_s == pytest.approx(60.306961)


def test_data_parallel_engines_are_one_start() -> None:
    lines = [
        f"(EngineCore_DP{engine} pid=1) INFO 07-06 22:52:09 [file.py:1] {message}"
        for engine in (0, 1)
        for message in (
            "Initializing a V1 LLM engine (v0.32.0) with config: model='m'",
            f"Available KV cache memory: {5 + engine}.5 GiB",
            "GPU KV cache size: 4,096 tokens",
        )
    ]
    (start,) = read_starts(lines)
    assert start.report.figures.kv_pool_bytes == round(5.5 * GIB)
    assert len(read_starts(lines + lines)) == 2


@pytest.mark.parametrize(
    ("line", "took"),
    [
        ("0.02.000.000 I srv  update_slots: all slots are idle", 1.998904),
        ("0.09.000.000 I slot launch_slot_: id  0 | task 0 | processing task, is_child = 0", None),
        ("0.09.000.000 I slot print_timing: id  0 | task 0 | n_gen =    144, tg =  46.87 t/s", None),
    ],
)
def test_a_server_whose_slots_wait_or_work_was_ready_though_that_line_is_lost(line: str, took: float | None) -> None:
    (start,) = read_starts([*LLAMACPP.splitlines()[:-1], line])
    assert start.report.ready
    assert start.start_s == (None if took is None else pytest.approx(took))


def test_a_real_vllm_log_is_one_start_with_its_duration() -> None:
    (start,) = read_starts(SMOL.read_text(encoding="utf-8").splitlines())
    assert (start.engine, start.start_s) == ("vllm", 58.0)
    twice = read_starts(SMOL.read_text(encoding="utf-8").splitlines() * 2)
    assert [item.report for item in twice] == [start.report] * 2


def test_excerpts_of_several_starts_are_told_apart_by_what_is_printed_once() -> None:
    lines = [
        "# a note of the collector",
        "(EngineCore pid=1) INFO 07-06 22:52:09 [gpu_worker.py:508] Available KV cache memory: 5.98 GiB",
        "(EngineCore pid=1) INFO 07-06 22:52:09 [kv_cache_utils.py:2146] GPU KV cache size: 567,978 tokens",
        "(EngineCore pid=2) INFO 07-09 02:58:11 [gpu_worker.py:508] Available KV cache memory: 6.01 GiB",
        "(EngineCore pid=2) INFO 07-09 02:58:11 [kv_cache_utils.py:2146] GPU KV cache size: 569,878 tokens",
    ]
    found = [(start.report.figures.kv_pool_bytes, start.report.figures.kv_tokens) for start in read_starts(lines)]
    assert found == [(round(5.98 * GIB), 567_978), (round(6.01 * GIB), 569_878)]


def test_the_starts_of_a_router_s_children_stand_in_the_order_in_which_they_began() -> None:
    def child(number: int, weights: str) -> list[str]:
        return [f"[{number}] {line}" for line in LLAMACPP.replace("92.10", weights).splitlines()]

    router = "0.00.002.000 I srv  llama_server: router server is listening on http://127.0.0.1:8080"
    lines = [*child(100, "1.00"), router, *child(200, "2.00"), *child(100, "3.00"), router]
    assert [start.report.figures.weights_bytes for start in read_starts(lines)] == [MIB, 2 * MIB, 3 * MIB]


def test_a_router_s_children_are_read_one_by_one() -> None:
    mixed = [f"[{child}] {line}" for line in LLAMACPP.splitlines() for child in (100, 200)]
    starts = read_starts(mixed)
    assert [start.report.ready for start in starts] == [True, True]
    assert [start.start_s for start in starts] == [pytest.approx(60.306961)] * 2


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("0.07.678.352 I srv x", 7.678352),
        ("[33899] 2.00.000.001 D srv x", 120.000001),
        ("no stamp", None),
        ("(APIServer pid=1) INFO 99-99 99:99:99 [a.py:1] x", None),
    ],
)
def test_an_engines_time_stamp_is_read_in_seconds(line: str, seconds: float | None) -> None:
    assert clock(line) == (None if seconds is None else pytest.approx(seconds))


def test_an_empty_log_holds_no_start() -> None:
    assert read_starts([]) == ()


@given(lines=st.lists(st.one_of(st.sampled_from(LLAMACPP.splitlines()), st.text(max_size=30)), max_size=12))
def test_every_line_belongs_to_exactly_one_start(lines: list[str]) -> None:
    starts = read_starts(lines)
    assert bool(starts) == any(line.strip() and not line.startswith("# ") for line in lines)


def vllm_start(*, version: str = "0.30.0", tokens: str = "300,220") -> list[str]:
    return [
        f"(APIServer pid=1) INFO 07-06 22:52:00 [api_utils.py:333]  ▄▄ ▄█ █     █ ▀▄▀ █  version {version}",
        "(APIServer pid=1) INFO 07-06 22:52:00 [api_utils.py:272] non-default args: {'model': 'm'}",
        "(EngineCore pid=2) INFO 07-06 22:52:09 [gpu_worker.py:508] Available KV cache memory: 5.33 GiB",
        f"(EngineCore pid=2) INFO 07-06 22:52:09 [kv_cache_utils.py:2146] GPU KV cache size: {tokens} tokens",
        "INFO:     Application startup complete.",
    ]


@pytest.mark.parametrize(
    "before",
    [
        "vllm-1  | ",
        "[pod/qwen-0/vllm] ",
        "Sep 07 22:16:27 box vllm[1234]: ",
        "2026-07-06T22:52:00.123456789Z ",
        "\x1b[36m",
    ],
)
def test_what_a_container_tool_puts_before_each_line_hides_nothing(before: str) -> None:
    (start,) = read_starts([before + line for line in vllm_start()])
    figures = start.report.figures
    assert (start.engine, start.report.ready) == ("vllm", True)
    assert (figures.version, figures.kv_tokens) == ("0.30.0", 300_220)


def test_a_container_s_clock_and_the_engine_s_own_are_not_compared() -> None:
    stamps = [f"2026-09-07T22:16:{second:02d}.5Z " for second in (0, 1, 40, 41, 44)]
    (start,) = read_starts([stamp + line for stamp, line in zip(stamps, vllm_start(), strict=True)])
    assert start.start_s == 44
    (own,) = read_starts([*vllm_start()[:-1], "2026-09-07 22:17:32,868 - INFO - autotuner: x", vllm_start()[-1]])
    assert own.start_s == 9


@pytest.mark.parametrize(
    "line",
    [
        "INFO 07-06 22:52:09 [gpu_worker.py:508] Available KV cache memory: 5.33 GiB",
        "Available KV cache memory: 5.33 GiB",
        "Model loading took 10.24 GiB",
        "CPU KV cache size: 46,592 tokens, Maximum concurrency for 4,096 tokens per request: 11.38x",
    ],
)
def test_lines_without_a_process_are_vllm_s_all_the_same(line: str) -> None:
    assert engine_of([line]) == "vllm"


FAILURE = "(EngineCore pid=9) ERROR 07-06 22:40:00 [core.py:1] ValueError: No available memory for the cache blocks."


@pytest.mark.parametrize(
    "failed", [[FAILURE], ["usage: vllm", "api_server.py: error: unrecognized arguments: --swap-space 4"]]
)
def test_a_start_after_one_that_failed_is_another_however_little_the_first_printed(failed: list[str]) -> None:
    first, second = read_starts([*failed, *vllm_start()])
    assert first.report.failure is not None
    assert (second.report.ready, second.report.failure, second.report.figures.version) == (True, None, "0.30.0")


def test_a_llama_server_that_is_started_again_after_a_wrong_flag_is_another_start() -> None:
    first, second = read_starts(["error: invalid argument: --no-mmap", *LLAMACPP.splitlines()])
    assert first.report.failure is not None
    assert (second.report.ready, second.report.failure) == (True, None)


def test_a_line_printed_behind_an_unfinished_bar_is_read() -> None:
    bar = "Capturing CUDA graphs (decode, FULL):   0%|          | 0/1 [00:00<?, ?it/s]"
    (start,) = read_starts([bar + vllm_start()[2], *vllm_start()[3:]])
    assert start.report.figures.kv_pool_bytes == round(5.33 * GIB)
