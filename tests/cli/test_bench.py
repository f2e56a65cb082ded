"""`bench`, `results` and `report` against a server of known truth: the documents, the words, the exit statuses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from fakes.truth import truth_server

Gearshift = Callable[..., Result]
SMALL = ("--output", "8", "--repeats", "2")
CELL_KEYS = {
    "concurrency", "depth", "setting", "trials", "ttft_s", "tpot_s", "decode_tok_s", "prefill_tok_s", "output_tok_s",
    "acceptance", "tokens_per_step", "cache_hit_share", "kv_use", "needle", "tokens", "client", "valid", "flags",
}  # fmt: skip


@pytest.fixture(scope="module")
def truth() -> Iterator[str]:
    with truth_server(ttft_s=0.01, step_s=0.002, cache=True, prefill_tok_s=50_000) as url:
        yield url


@pytest.fixture(scope="module")
def steady() -> Iterator[str]:
    """Slow enough that a busy box's late event loop does not make its cells invalid, which are never reused."""
    with truth_server(ttft_s=0.01, step_s=0.02) as url:
        yield url


def document(result: Result) -> Any:
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_a_concurrency_sweep_prints_the_document_of_its_contract(gearshift: Gearshift, truth: str) -> None:
    done = gearshift(
        "bench", "concurrency", "--url", f"{truth}/v1", "--model", "truth", "--levels", "3,1", "--input", "64",
        "--requests", "3", *SMALL, "--json",
    )  # fmt: skip
    found = document(done)
    assert found["experiment"] == "concurrency"
    assert (found["target"]["url"], found["target"]["model"]) == (truth, "truth")
    assert [cell["concurrency"] for cell in found["cells"]] == [1, 3]
    for cell in found["cells"]:
        assert cell.keys() >= CELL_KEYS
        assert cell["tokens"]["usage"] == cell["tokens"]["server"] == 2 * 3 * 8
        assert cell["ttft_s"]["low"] <= cell["ttft_s"]["median"] <= cell["ttft_s"]["high"]
    assert found["verdict"] is None
    assert found["interrupted"] is False
    assert [cell["requests"] for cell in found["plan"]["cells"]] == [3, 3]


def test_without_requests_each_level_sends_at_least_four(gearshift: Gearshift, truth: str) -> None:
    found = document(
        gearshift("bench", "concurrency", "--url", truth, "--levels", "1,5", "--input", "32", *SMALL, "--json")
    )
    assert [cell["requests"] for cell in found["plan"]["cells"]] == [4, 5]


def test_a_single_repeat_has_no_interval_and_says_so(gearshift: Gearshift, truth: str) -> None:
    done = gearshift("bench", "ladder", "--url", truth, "--depths", "64", "--output", "8", "--repeats", "1", "--json")
    (cell,) = document(done)["cells"]
    assert cell["ttft_s"]["low"] is None
    assert cell["ttft_s"]["high"] is None
    assert "single_run" in cell["flags"]


def test_a_ladder_asks_for_its_needles(gearshift: Gearshift, truth: str) -> None:
    done = gearshift("bench", "ladder", "--url", truth, "--depths", "128,256", "--needle", "0.1,0.9", "--json",
                     "--output", "16", "--repeats", "1")  # fmt: skip
    assert [cell["needle"] for cell in document(done)["cells"]] == [{"asked": 2, "found": 2}] * 2


def test_a_prefix_measurement_is_cold_and_then_cached(gearshift: Gearshift, truth: str) -> None:
    done = gearshift("bench", "prefix", "--url", truth, "--prefix", "512", "--suffix", "32", *SMALL, "--json")
    cold, cached = document(done)["cells"]
    assert cold["setting"] == "cold"
    assert cold["cache_hit_share"] < 0.05
    assert cached["cache_hit_share"] > 0.9


def test_ab_finds_the_slower_of_two_servers(gearshift: Gearshift, truth: str) -> None:
    with truth_server(ttft_s=0.01, step_s=0.004) as slow:
        found = document(
            gearshift(
                "bench",
                "ab",
                truth,
                slow,
                "--input",
                "32",
                "--output",
                "32",
                "--requests",
                "1",
                "--repeats",
                "4",
                "--json",
            )
        )
    assert [cell["setting"] for cell in found["cells"]] == [truth, slow]
    if not all(cell["valid"] for cell in found["cells"]):  # on a busy box the client knows that it is too late to tell
        assert found["verdict"] is None
        assert found["advice"][0].startswith("no verdict")
        return
    assert found["verdict"]["result"] == "worse"
    assert found["verdict"]["change"] == pytest.approx(-0.5, abs=0.15)
    assert found["findings"]["a"] == truth


def test_ab_of_one_side_is_wrong_usage(gearshift: Gearshift, truth: str) -> None:
    alone = gearshift("bench", "ab", truth)
    assert alone.exit_code == 2
    assert "name B" in alone.stderr
    assert gearshift("bench", "ab", truth, truth).exit_code == 2


def test_speculation_compares_servers_that_are_named_by_setting(gearshift: Gearshift, truth: str) -> None:
    with truth_server(ttft_s=0.01, step_s=0.003, tokens_per_chunk=[3], draft=2) as drafting:
        tokens = f"off={truth},2={drafting}"
        found = document(
            gearshift("bench", "speculation", "--tokens", tokens, "--levels", "1", "--depths", "32", "--output", "48",
                      "--repeats", "1", "--json")
        )  # fmt: skip
    off, on = found["cells"]
    assert (off["setting"], off["acceptance"]) == ("off", None)
    assert on["acceptance"]["mean_length"] == pytest.approx(3, abs=0.1)
    assert on["setting"] == "2"
    assert found["advice"][0].startswith("2 drafted at 32 tokens: ")
    for break_even in found["findings"]["break_even"]:  # none where a busy box made a cell invalid
        assert break_even["setting"] == "2"
        assert break_even["gains"][0]["ratio"] > 1


def test_drafts_of_a_server_at_a_url_cannot_be_changed(gearshift: Gearshift, truth: str) -> None:
    refused = gearshift("bench", "speculation", "--url", truth, "--tokens", "off,2")
    assert refused.exit_code == 1
    assert "--tokens off=http" in refused.stderr


def test_saturate_stops_when_too_few_requests_are_good(gearshift: Gearshift, truth: str) -> None:
    found = document(
        gearshift("bench", "saturate", "--url", truth, "--rate", "20", "--ttft", "1ms", "--requests", "5", "--input",
                  "32", "--output", "4", "--json")
    )  # fmt: skip
    assert len(found["cells"]) == 1
    assert found["findings"]["goodput"][0]["share"] == 0


def test_a_budget_drops_cells_and_says_which(gearshift: Gearshift, truth: str) -> None:
    done = gearshift(
        "bench", "ladder", "--url", truth, "--depths", "64,4k", "--output", "16", "--budget", "1s", "--json"
    )
    assert [cell["depth"] for cell in document(done)["cells"]] == [64]
    assert "left out, too long for the budget: 4000 tokens deep" in done.stderr
    assert "the whole plan needs a budget of about " in done.stderr
    assert "; every cell with fewer repeats needs about " in done.stderr


def test_data_goes_to_stdout_and_progress_with_the_time_left_to_stderr(gearshift: Gearshift, truth: str) -> None:
    done = gearshift("bench", "ladder", "--url", truth, "--depths", "64,128", *SMALL)
    assert done.exit_code == 0
    assert "ladder 1/2: 64 tokens deep, 1 stream\n" in done.stderr
    assert "left\n" in done.stderr
    assert done.stdout.startswith("ladder, truth, vllm truth")
    assert "ladder 1/2" not in done.stdout


def test_a_server_that_is_not_there_is_an_error_with_a_hint(gearshift: Gearshift) -> None:
    done = gearshift("bench", "ladder", "--url", "http://127.0.0.1:9", "--json")
    assert done.exit_code == 1
    assert done.stdout == ""
    assert "does not answer" in done.stderr


def test_without_a_url_and_without_a_server_it_says_how_to_get_one(gearshift: Gearshift) -> None:
    done = gearshift("bench", "ladder")
    assert done.exit_code == 1
    assert "gearshift serve" in done.stderr
    assert "--url" in done.stderr


def test_a_key_comes_from_the_variable_that_is_named(gearshift: Gearshift, truth: str) -> None:
    refused = gearshift("bench", "ladder", "--url", truth, "--key-env", "NO_SUCH_KEY")
    assert refused.exit_code == 1
    assert "NO_SUCH_KEY is not set" in refused.stderr


@pytest.mark.parametrize(
    ("option", "value"), [("--depths", "0"), ("--depths", "deep"), ("--needle", "1.5"), ("--extra", "[1]")]
)
def test_a_value_that_makes_no_sense_is_wrong_usage_and_named(gearshift: Gearshift, option: str, value: str) -> None:
    done = gearshift("bench", "ladder", option, value)
    assert done.exit_code == 2
    assert value in done.stderr


LONG = ("--output", "40", "--repeats", "1", "--requests", "1")


def test_cells_that_are_stored_are_not_measured_twice_when_resuming(gearshift: Gearshift, steady: str) -> None:
    asked = ("bench", "ladder", "--url", steady, "--depths", "64", *LONG, "--resume", "--json")
    first, again = document(gearshift(*asked)), document(gearshift(*asked))
    assert again["cells"][0]["ttft_s"] == first["cells"][0]["ttft_s"]


def test_a_campaign_runs_its_experiments_and_resumes_at_the_cell(
    gearshift: Gearshift, steady: str, tmp_path: Path
) -> None:
    file = tmp_path / "evening.yaml"
    file.write_text(
        "name: evening\ndefaults: {trials: 1, requests: 1, output: 40}\nexperiments:\n"
        "  - {kind: ladder, depths: [64]}\n  - {kind: concurrency, levels: [1], input: 32, requests: 1}\n"
    )
    first = document(gearshift("bench", "campaign", str(file), "--url", steady, "--json"))
    assert [found["experiment"] for found in first] == ["ladder", "concurrency"]
    again = document(gearshift("bench", "campaign", str(file), "--url", steady, "--json"))
    assert [found["cells"][0]["ttft_s"] for found in again] == [found["cells"][0]["ttft_s"] for found in first]


def test_a_campaign_may_compare_servers_and_saturate_one(gearshift: Gearshift, steady: str, tmp_path: Path) -> None:
    with truth_server(ttft_s=0.01, step_s=0.02, tokens_per_chunk=[3], draft=2) as drafting:
        file = tmp_path / "pair.yaml"
        file.write_text(
            "defaults: {trials: 1, requests: 1, output: 12, depth: 32}\nexperiments:\n"
            f"  - {{kind: speculation, tokens: {{off: {steady!r}, 2: {drafting!r}}}, levels: [1]}}\n"
            f"  - {{kind: ab, a: {steady!r}, b: {drafting!r}, input: 32, trials: 2}}\n"
            f"  - {{kind: saturate, rate: 20, ttft: 1ms, input: 32}}\n"
        )
        found = document(gearshift("bench", "campaign", str(file), "--url", steady, "--json"))
    assert [result["experiment"] for result in found] == ["speculation", "ab", "saturate"]
    assert [cell["setting"] for cell in found[0]["cells"]] == ["off", "2"]
    assert [cell["setting"] for cell in found[1]["cells"]] == [steady, drafting]
    assert [cell["setting"] for cell in found[2]["cells"]] == ["20/s"]


def test_every_problem_of_a_campaign_file_is_told_at_once(gearshift: Gearshift, truth: str, tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text("experiments: [{kind: laddder}, {kind: ladder, wdith: 3}]")
    done = gearshift("bench", "campaign", str(file), "--url", truth)
    assert done.exit_code == 2
    assert "laddder" in done.stderr
    assert "wdith" in done.stderr


BACKGROUND = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")  # as a shell starts what it puts into the background


@pytest.mark.parametrize(
    ("before", "number", "status"),
    [((), signal.SIGINT, 130), ((), signal.SIGTERM, 143), (BACKGROUND, signal.SIGINT, 130)],
)
def test_a_signal_ends_it_and_what_is_done_is_printed_and_kept(
    gearshift_home: Path, before: tuple[str, ...], number: int, status: int
) -> None:
    with truth_server(ttft_s=0.01, step_s=0.01) as url:
        argv = [*before, sys.executable, "-m", "gearshift", "bench", "ladder", "--url", url, "--depths", "32,64"]
        process = subprocess.Popen(
            [*argv, "--output", "20", "--repeats", "1", "--requests", "2", "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=dict(os.environ),
        )
        assert process.stderr is not None
        told = process.stderr.readline()
        deadline = time.monotonic() + 20
        while "2/2" not in told and time.monotonic() < deadline:
            told = process.stderr.readline()
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    found = json.loads(out)
    assert process.returncode == status
    assert "interrupted; what was whole is kept" in err
    assert found["interrupted"] is True
    assert [cell["depth"] for cell in found["cells"]] == [32]
    assert (gearshift_home / "gearshift.db").exists()
