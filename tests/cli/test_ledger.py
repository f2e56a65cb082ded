"""`ledger` as it is typed: files, several files, stdin, what cannot be read; printing for a person."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from inline_snapshot import snapshot

from advice.ledger_logs import FAILED, LLAMACPP, VLLM
from gearshift.advice.ledger_missing import ORDER
from gearshift.cli.ledger_view import FIGURES

Gearshift = Callable[..., Result]
SAMPLES = Path(os.environ.get("GEARSHIFT_SAMPLES") or Path(__file__).parents[3] / "shared" / "samples")
samples = pytest.mark.skipif(not SAMPLES.is_dir(), reason="the public logs are not beside this checkout")


@pytest.fixture
def logs(tmp_path: Path) -> dict[str, str]:
    paths = {}
    for name, text in {"llamacpp": LLAMACPP, "vllm": VLLM, "failed": FAILED}.items():
        path = tmp_path / f"{name}.log"
        path.write_text(text)
        paths[name] = str(path)
    return paths


def document(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_several_logs_are_one_document(gearshift: Gearshift, logs: dict[str, str]) -> None:
    found = document(gearshift("ledger", logs["vllm"], logs["failed"], "--json"))
    assert found["ok"] is False
    assert [start["log"] for start in found["starts"]] == [logs["vllm"], logs["failed"]]


def test_a_log_can_be_piped_in(gearshift: Gearshift, logs: dict[str, str]) -> None:
    found = document(gearshift("ledger", logs["failed"], "-", "--json", piped=LLAMACPP.replace("\n", "\r\n")))
    assert (found["engine"], found["version"], found["ok"]) == ("llama.cpp", "11434", True)
    assert [start["log"] for start in found["starts"]] == [logs["failed"], "-"]


def test_bytes_that_are_no_text_are_no_obstacle(gearshift: Gearshift, tmp_path: Path) -> None:
    path = tmp_path / "broken.log"
    path.write_bytes(b"\xff\xfe\x00" + LLAMACPP.encode() + b"\x80")
    assert document(gearshift("ledger", str(path), "--json"))["kv_tokens"] == 8192


def test_what_is_no_log_is_said(gearshift: Gearshift) -> None:
    result = gearshift("ledger", "-", "--json", piped="Listening on port 80\n")
    assert result.stderr == "warning: -: no line of vLLM or llama.cpp in it\n"
    assert json.loads(result.stdout)["engine"] is None


@pytest.mark.parametrize("arguments", [(), ("/nowhere.log",), ("/",)])
def test_what_cannot_be_read_is_exit_status_2(gearshift: Gearshift, arguments: tuple[str, ...]) -> None:
    result = gearshift("ledger", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")


def test_a_person_sees_memory_by_device_and_kind(gearshift: Gearshift, logs: dict[str, str]) -> None:
    assert gearshift("ledger", logs["llamacpp"]).stdout == snapshot("""\
llama.cpp 11434: ready after 1.3 s, cache of 8,192 tokens

            weights   kv       compute  output   all
CUDA0       92 MiB    180 MiB  14 MiB   -        286 MiB
CPU_Mapped  28.7 MiB  -        -        -        28.7 MiB  host memory
CUDA_Host   -         -        -        768 KiB  768 KiB   host memory

layers on GPUs: 31 of 31
""")


def test_earlier_starts_take_a_line_each(gearshift: Gearshift, logs: dict[str, str]) -> None:
    printed = gearshift("ledger", logs["failed"], logs["vllm"]).stdout
    assert printed.replace(str(Path(logs["vllm"]).parent), "LOGS") == snapshot("""\
LOGS/failed.log: vllm 0.32.0: failed

LOGS/vllm.log: vllm 0.32.0: ready after 30.0 s, cache of 300,220 tokens, 1.15x

        weights  kv        all
rank 0  9.5 GiB  5.41 GiB  14.9 GiB
rank 1  9.5 GiB  5.33 GiB  14.8 GiB

context: 262,144 tokens, engine init: 21.5 s, speculation: mtp of 3
not in this log: compute, graphs
""")


def test_a_failed_start_shows_its_cause(gearshift: Gearshift, logs: dict[str, str]) -> None:
    shown, _, missing = gearshift("ledger", logs["failed"]).stdout.partition("not in this log: ")
    assert missing.startswith("weights, size of the cache, ")
    assert shown == snapshot("""\
vllm 0.32.0: failed
  cause: torch.OutOfMemoryError: CUDA out of memory.
  log:   (EngineCore pid=2) ERROR 11-29 10:00:09 [core.py:1] torch.OutOfMemoryError: CUDA out of memory.
  fix:   lower context and with it kv_bytes, or max-num-batched-tokens, or free what other processes hold
""")


def test_an_empty_log_holds_no_start(gearshift: Gearshift) -> None:
    assert gearshift("ledger", "-").stdout == "no start in it\n"


@samples
@pytest.mark.parametrize(
    ("log", "figures"),
    [
        ("llamacpp-logs/01", {"kv_pool_bytes": 570_425_344, "layers_offloaded": [66, 66], "ok": True, "missing": []}),
        ("llamacpp-logs/02", {"kv_pool_bytes": 1_140_850_688, "state_bytes": None, "missing": []}),
        ("llamacpp-logs/03", {"layers_offloaded": [20, 33], "ok": True}),
        ("llamacpp-logs/04", {"speculation": {"method": "mtp", "tokens": None}, "missing": ["speculation"]}),
        ("llamacpp-logs/05", {"ok": True, "kv_pool_bytes": 36_507_222_016}),
        ("llamacpp-logs/06", {"ok": None, "weights_bytes": 103_746_109}),
        (
            "llamacpp-logs/07",
            {
                "ok": True,
                "kv_tokens": 262_144,
                "missing": ["version", "kv_pool_bytes", "start_s", "layers_offloaded", "speculation"],
            },
        ),
        (
            "vllm-logs/0.23.1",
            {"kv_tokens": 1_394_129, "concurrency": 5.32, "block_size": 1600, "engine_init_s": 535.77},
        ),
        ("vllm-logs/0.24.0", {"kv_tokens": 619_202, "concurrency": 2.36, "ok": None}),
        ("vllm-logs/0.27.1-4x", {"kv_pool_suggested_bytes": [29_407_858_586, 38_581_581_312], "concurrency": 18.96}),
        ("vllm-logs/0.27.1-a6000", {"block_size": 1568, "ok": None}),
        ("vllm-logs/0.28-cpu", {"ok": False, "weights_bytes": None}),
        ("vllm-logs/0.28dev-16gb-27b-exl3-turboquant-autofit-cold", {"kv_tokens": 172_032, "missing": ["start_s"]}),
        ("vllm-logs/0.28dev-16gb-27b-exl3-turboquant-autofit-warm", {"kv_tokens": 196_608, "block_size": 3072}),
        (
            "vllm-logs/own-0.32.0-cpu-smollm2",
            {"kv_tokens": 46_592, "concurrency": 11.38, "start_s": 58.0, "missing": []},
        ),
        ("vllm-logs/own-0.32.0-cpu-tiny", {"ok": True, "block_size": 1152, "kv_tokens": 829_440, "missing": []}),
        ("h200/s2", {"kv_tokens": 1_192_678, "kv_pool_bytes": 40_000_000_000, "concurrency": 4.55, "missing": []}),
        ("h200/sleep-wake-failure", {"ok": True, "kv_pool_bytes": 20_000_000_000}),
    ],
)
def test_public_logs_give_the_figures_that_are_known_of_them(
    gearshift: Gearshift, log: str, figures: dict[str, object]
) -> None:
    (path,) = SAMPLES.glob(f"{log}*.log")
    found = document(gearshift("ledger", str(path), "--json"))
    assert {name: found[name] for name in figures} == figures
    if found["failure"]:
        assert found["failure"]["line"] in path.read_text(encoding="utf-8").splitlines()


@samples
def test_all_public_logs_are_read_in_one_go(gearshift: Gearshift) -> None:
    paths = sorted(map(str, SAMPLES.glob("*/*.log")))
    found = document(gearshift("ledger", *paths, "--json"))
    assert list(dict.fromkeys(start["log"] for start in found["starts"])) == paths
    assert gearshift("ledger", *paths).exit_code == 0


def test_a_log_without_buffers_says_how_to_have_them(gearshift: Gearshift) -> None:
    piped = "0.00.001.096 I srv  llama_server: initializing ...\n0.01.308.057 I srv  llama_server: model loaded\n"
    assert gearshift("ledger", "-", piped=piped).stdout == snapshot("""\
llama.cpp: ready after 1.3 s
not in this log: version, weights, size of the cache, tokens of the cache, compute
llama-server prints its buffers with -lv 4
""")


def test_warnings_that_change_what_a_start_means_are_shown_as_they_stand(gearshift: Gearshift) -> None:
    warning = "Using uncalibrated q_scale 1.0 and/or prob_scale 1.0 with fp8 attention."
    piped = (
        "(APIServer pid=7) INFO 11-29 23:08:33 [api_server.py:1] vLLM API server version 0.32.0\n"
        f"(EngineCore pid=8) WARNING 11-29 23:08:40 [kv_cache.py:1] {warning}\n"
        "(APIServer pid=7) INFO 11-29 23:08:41 [launcher.py:1] Application startup complete.\n"
    )
    assert gearshift("ledger", "-", piped=piped).stdout.splitlines()[-1] == f"  note: {warning}"
    assert document(gearshift("ledger", "-", "--json", piped=piped))["notices"] == [warning]


def test_every_figure_that_can_be_missing_has_words() -> None:
    assert set(ORDER) == set(FIGURES)
