"""Start-up logs as one document: which start is on top, what is summed, what is missing, how it ended."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

from advice.ledger_logs import FAILED, LLAMACPP, VLLM
from gearshift.advice.ledger import ledger_document, read_log
from gearshift.advice.ledger_missing import LogTraits, traits_of
from gearshift.domain.units import GIB, MIB


def document(*logs: str) -> dict[str, object]:
    starts = [start for number, log in enumerate(logs) for start in read_log(f"{number}.log", log.splitlines())]
    return ledger_document(starts)


def known(found: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in found.items() if value is not None}


def test_a_llama_cpp_log_is_summed_over_devices_with_host_memory_apart() -> None:
    found = document(LLAMACPP)
    starts = found.pop("starts")
    assert starts == [{"log": "0.log", **found}], "of a log with one start they are the same"
    assert found == snapshot(
        {
            "engine": "llama.cpp",
            "version": "11434",
            "ok": True,
            "weights_bytes": 96468992,
            "kv_pool_bytes": 188743680,
            "kv_pool_suggested_bytes": None,
            "kv_tokens": 8192,
            "concurrency": None,
            "block_size": None,
            "state_bytes": None,
            "compute_bytes": 14680064,
            "graph_bytes": None,
            "engine_init_s": None,
            "start_s": 1.306961,
            "layers_offloaded": [31, 31],
            "speculation": None,
            "devices": [
                {
                    "device": "CPU_Mapped",
                    "host": True,
                    "bytes": 30083645,
                    "buffers": [{"kind": "weights", "context": "target", "bytes": 30083645}],
                },
                {
                    "device": "CUDA0",
                    "host": False,
                    "bytes": 299892736,
                    "buffers": [
                        {"kind": "weights", "context": "target", "bytes": 96468992},
                        {"kind": "kv", "context": "target", "bytes": 188743680},
                        {"kind": "compute", "context": "target", "bytes": 14680064},
                    ],
                },
                {
                    "device": "CUDA_Host",
                    "host": True,
                    "bytes": 786432,
                    "buffers": [{"kind": "output", "context": "target", "bytes": 786432}],
                },
            ],
            "missing": [],
            "notices": [],
            "failure": None,
        }
    )


def test_a_vllm_log_has_the_smallest_pool_of_its_ranks() -> None:
    found = document(VLLM)
    assert (found["kv_pool_bytes"], found["weights_bytes"]) == (round(5.33 * GIB), 19 * GIB)
    del found["starts"], found["devices"]
    assert known(found) == snapshot(
        {
            "engine": "vllm",
            "version": "0.32.0",
            "ok": True,
            "weights_bytes": 20401094656,
            "kv_pool_bytes": 5723043922,
            "kv_tokens": 300220,
            "concurrency": 1.15,
            "engine_init_s": 21.5,
            "start_s": 30.0,
            "speculation": {"method": "mtp", "tokens": 3},
            "missing": ["compute_bytes", "graph_bytes"],
            "notices": [],
        }
    )


def test_the_last_start_is_on_top_and_all_are_told() -> None:
    found = document(VLLM, LLAMACPP.replace("180.00", "90.00"), LLAMACPP)
    starts = found.pop("starts")
    assert isinstance(starts, list)
    assert [(start["log"], start["engine"], start["kv_pool_bytes"]) for start in starts] == [
        ("0.log", "vllm", round(5.33 * GIB)),
        ("1.log", "llama.cpp", 90 * MIB),
        ("2.log", "llama.cpp", 180 * MIB),
    ]
    assert starts[-1] == {"log": "2.log", **found}


@pytest.mark.parametrize(
    ("log", "ok"),
    [
        (VLLM, True),
        (FAILED, False),
        (LLAMACPP.rpartition("0.01.308")[0], None),
        (VLLM + "double free or corruption (!prev)\n", True),  # it became ready; what came later is in failure
    ],
)
def test_ok_says_whether_it_became_ready(log: str, ok: bool | None) -> None:  # noqa: FBT001 - the three answers
    assert document(log)["ok"] is ok


def test_a_failure_has_its_cause_its_line_as_it_stands_and_a_way_out() -> None:
    failure = document(FAILED)["failure"]
    assert isinstance(failure, dict)
    assert failure["line"] == FAILED.splitlines()[1]
    assert failure["cause"].startswith("torch.OutOfMemoryError")
    assert failure["fix"]


def test_nothing_read_is_nothing_known() -> None:
    found = document("")
    assert found.pop("starts") == []
    assert known(found) == {"devices": [], "missing": [], "notices": []}


def without(log: str, *words: str) -> list[str]:
    return [line for line in log.splitlines() if not any(word in line for word in words)]


@pytest.mark.parametrize(
    ("lines", "missing"),
    [
        (LLAMACPP.splitlines(), ()),
        (without(LLAMACPP, "build 11434", "offloaded"), ("version", "layers_offloaded")),
        (
            without(LLAMACPP, "buffer size", "cells", "offloaded"),
            ("weights_bytes", "kv_pool_bytes", "kv_tokens", "compute_bytes"),
        ),
        (without(LLAMACPP, "CUDA0 ", "offloaded"), ("compute_bytes",)),  # the cache is summed up in a line of its own
        ([*LLAMACPP.splitlines(), "llama_memory_recurrent: size = 1.00 MiB"], ("state_bytes",)),
        (VLLM.splitlines(), ("compute_bytes", "graph_bytes")),
        (VLLM.replace("enforce_eager=False", "enforce_eager=True").splitlines(), ("compute_bytes",)),
        (VLLM.replace("enforce_eager=False", "device_config=cpu").splitlines(), ()),
        (without(VLLM, "Model loading"), ("weights_bytes", "compute_bytes", "graph_bytes")),
        (without(VLLM, "Initializing", "version"), ("version", "compute_bytes", "graph_bytes")),
        (VLLM.replace(", num_spec_tokens=3", "").splitlines(), ("compute_bytes", "graph_bytes")),
        (["something else"], ()),
    ],
)
def test_what_a_complete_log_would_have_is_named(lines: list[str], missing: tuple[str, ...]) -> None:
    (read,) = read_log("x", lines)
    assert read.missing == missing


@pytest.mark.parametrize(
    ("line", "traits"),
    [
        ("Explicitly set (1.0/7.0) GiB for KV cache on node 0.", LogTraits(cpu=True)),
        ("non-default args: {'enforce_eager': True}", LogTraits(eager=True)),
        (
            "Initial free memory 9 GiB, reserved 8 GiB memory for KV Cache as specified by kv_cache_memory_bytes",
            LogTraits(pinned=True),
        ),
        ("Padding mamba page size by 0.13%", LogTraits(hybrid=True)),
        ("GPU KV cache size: 1 tokens", LogTraits()),
    ],
)
def test_a_log_tells_what_it_will_never_have(line: str, traits: LogTraits) -> None:
    assert traits_of([line]) == traits


def test_a_router_s_children_are_judged_each_by_its_own_lines() -> None:
    hybrid = "0.00.240.002 I llama_memory_recurrent:      CUDA0 RS buffer size =   598.50 MiB"
    lines = LLAMACPP.splitlines()
    children = [[*lines[:-2], hybrid, *lines[-2:]], lines]
    mixed = [f"[{port}] {line}" for port, child in enumerate(children, 41_001) for line in child]
    assert [read.missing for read in read_log("router.log", mixed)] == [(), ()]


def test_a_draft_context_tells_that_there_is_speculation_of_some_kind() -> None:
    draft = "0.00.260.000 I llama_kv_cache:      CUDA0 KV buffer size =    32.00 MiB"
    lines = LLAMACPP.splitlines()
    (read,) = read_log("x", [*lines[:-1], lines[-4].replace("0.00.230", "0.00.259"), draft, lines[-1]])
    assert "speculation" in read.missing


@settings(deadline=None)
@given(st.lists(st.one_of(st.sampled_from((LLAMACPP + VLLM + FAILED).splitlines()), st.text(max_size=40)), max_size=30))
def test_any_lines_make_a_document(lines: list[str]) -> None:
    found = ledger_document(read_log("x", lines))
    again = json.loads(json.dumps(found))
    assert isinstance(again["starts"], list)
    for start in again["starts"]:
        assert not {name for name in start["missing"] if name != "speculation" and start[name] is not None}


def as_records(log: str) -> str:
    """The same log as llama-server's --log-jsonl prints it."""
    records = []
    for line in log.splitlines():
        stamp, level, text = line.split(" ", 2)
        minutes, seconds, milliseconds, microseconds = map(int, stamp.split("."))
        time = (minutes * 60 + seconds) * 1_000_000 + milliseconds * 1000 + microseconds
        name = {"I": "info", "E": "error"}[level]
        records.append(json.dumps({"type": "log", "time": time, "level": name, "msg": f"{text}\n"}))
    return "\n".join(records)


def test_json_records_are_read_like_the_lines_they_stand_for() -> None:
    assert document(as_records(LLAMACPP)) == document(LLAMACPP)


def test_a_failure_among_json_records_quotes_the_record() -> None:
    log = as_records(
        "0.00.001.000 I srv  llama_server: initializing ...\n0.00.002.000 E gguf_init_from_file: bad magic"
    )
    failure = document(log)["failure"]
    assert isinstance(failure, dict)
    assert failure["line"] == log.splitlines()[1]


@pytest.mark.parametrize(
    "line",
    [
        '{"msg": 3}',
        '{"a": [',
        "{",
        '{"msg": "x", "time": -1}',
        '{"msg": "x", "time": true}',
        '{"' + '[{"":' * 9999,
        "{}",
    ],
    ids=lambda line: line[:20],
)
def test_other_json_is_a_line_like_any_other(line: str) -> None:
    assert len(read_log("x", [line])) == 1
