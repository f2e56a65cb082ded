"""Other tools' files: figures in our units, their definitions tagged, what does not hold named."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.bench.importers import Imported, cross_check, keep, read_file
from gearshift.bench.importers.imported import ImportFormatError
from gearshift.bench.results import IncomparableError, diff, experiment_json, to_csv
from gearshift.store import open_store

FIXTURES = Path(__file__).parent / "fixtures"
SAMPLES = Path(os.environ.get("GEARSHIFT_SAMPLES", Path(__file__).parents[3] / "shared" / "samples")) / "bench"
in_place = pytest.mark.skipif(not SAMPLES.is_dir(), reason="other people's files are read in place only")

VLLM = {
    "date": "20260101-101010", "backend": "openai", "model_id": "org/model", "max_concurrency": 4, "num_prompts": 8,
    "completed": 8, "failed": 0, "duration": 4.0, "total_input_tokens": 800, "total_output_tokens": 400,
    "request_throughput": 2.0, "output_throughput": 100.0, "max_output_tokens_per_s": 40.0,
    "max_concurrent_requests": 4, "request_rate": "inf", "mean_ttft_ms": 200.0, "median_ttft_ms": 190.0,
    "mean_tpot_ms": 30.0, "mean_itl_ms": 90.0, "mean_e2el_ms": 1670.0, "p99_ttft_ms": 300.0,
    "spec_decode_acceptance_length": 3.0, "spec_decode_per_position_acceptance_rates": [0.9, 0.7, 0.4],
}  # fmt: skip
LLAMA = {
    "build_number": 11434, "model_type": "llama 135M Q4_1", "n_prompt": 0, "n_gen": 64, "n_depth": 512, "avg_ts": 118.0,
    "samples_ts": [90.0, 120.0, 121.0], "samples_ns": [711111111, 533333333, 528925620], "flash_attn": True,
}  # fmt: skip


def write(folder: Path, content: Any, name: str = "result.json") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def outcome(result: Imported) -> dict[str, bool | None]:
    return {check.name: check.ok for check in result.invariants}


def test_vllms_milliseconds_become_seconds_and_its_itl_a_chunk_gap(tmp_path: Path) -> None:
    result = read_file(write(tmp_path, VLLM))
    (row,) = result.rows
    assert (result.tool, result.model, result.tool_version) == ("vllm bench serve", "org/model", None)
    assert row.ttft_s == {"mean": 0.2, "median": 0.19, "p99": 0.3}
    assert row.chunk_gap_s == {"mean": 0.09}
    assert row.output == 50
    assert row.acceptance is not None
    assert row.acceptance.per_position == (0.9, 0.7, 0.4)
    assert "chunk_gap_s" in result.definitions


def test_vllms_peak_below_its_mean_is_named(tmp_path: Path) -> None:
    found = outcome(read_file(write(tmp_path, VLLM)))
    assert found["peak_ge_mean"] is False
    assert found["acceptance_sums_to_length"]
    assert found["itl_over_length_is_tpot"]
    assert found["latency_is_ttft_plus_decode"]
    assert found["little"]
    assert found["in_flight_le_concurrency"]


def test_a_run_where_everything_failed_has_no_latencies_and_fails_its_first_invariant(tmp_path: Path) -> None:
    result = read_file(write(tmp_path, VLLM | {"completed": 0, "mean_ttft_ms": 0.0}))
    assert outcome(result)["completed_gt_0"] is False
    assert result.rows[0].ttft_s is None


def test_what_a_file_does_not_state_is_unknown_and_not_zero(tmp_path: Path) -> None:
    sparse = {key: VLLM[key] for key in ("model_id", "output_throughput", "completed")}
    result = read_file(write(tmp_path, sparse))
    assert result.rows[0].tpot_s is None
    assert outcome(result)["peak_ge_mean"] is None
    assert result.to_json()["rows"][0]["concurrency"] is None  # type: ignore[index]  # a list of objects


def test_appended_lines_in_a_json_file_are_rows(tmp_path: Path) -> None:
    lines = "\n".join(json.dumps(VLLM | {"max_concurrency": level}) for level in (1, 4))
    result = read_file(write(tmp_path, lines))
    assert [row.concurrency for row in result.rows] == [1, 4]
    assert "row 1" in next(check.detail for check in result.invariants if check.name == "in_flight_le_concurrency")


def test_a_figure_that_is_no_number_is_unknown(tmp_path: Path) -> None:
    text = json.dumps(VLLM | {"request_throughput": math.nan, "mean_ttft_ms": math.inf})
    (row,) = read_file(write(tmp_path, text.replace("Infinity", "1e999"))).rows
    assert row.request_s is None
    assert row.ttft_s is None or "mean" not in row.ttft_s


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 100_000, "nested too deeply"),
        (json.dumps(VLLM, indent=1)[:-40], "line"),
        (json.dumps(VLLM)[:-40], "was it cut off?"),
    ],
)
def test_a_file_that_is_cut_off_or_no_result_is_an_error_and_not_a_crash(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ImportFormatError, match="neither JSON nor JSON lines") as caught:
        read_file(write(tmp_path, text))
    assert said in f"{caught.value.message} {caught.value.hint}"
    assert "line 1 column 2 " not in caught.value.message


def test_a_file_too_large_for_memory_is_refused_by_its_size(tmp_path: Path) -> None:
    huge = tmp_path / "huge.json"
    with huge.open("wb") as file:
        file.truncate(5 * 2**30)  # sparse: it takes no room
    with pytest.raises(ImportFormatError, match=r"has 5(\.0+)? GiB"):
        read_file(huge)


def test_a_sweeps_summary_is_a_list_of_runs(tmp_path: Path) -> None:
    assert len(read_file(write(tmp_path, [VLLM | {"run_number": 1}, VLLM | {"run_number": 2}])).rows) == 2


def test_multi_turn_runs_have_conversations_for_requests(tmp_path: Path) -> None:
    turn = {"mode": "multi_turn", "model_id": "m", "num_conversations": 5, "conversations_completed": 5}
    result = read_file(write(tmp_path, turn))
    assert (result.tool, result.rows[0].requests) == ("vllm bench multi-turn", 5)


def test_llama_bench_rows_keep_their_repeats_and_name_a_slow_first_one(tmp_path: Path) -> None:
    prefill = LLAMA | {"n_prompt": 512, "n_gen": 0, "n_depth": 0, "samples_ts": [900.0, 910.0], "samples_ns": None}
    result = read_file(write(tmp_path, "\n".join(json.dumps(row) for row in (LLAMA, prefill)), "bench.jsonl"))
    decode, fill = result.rows
    assert (decode.decode_tok_s, decode.depth, decode.prefill_tok_s) == (120.0, 512, None)
    assert (fill.prefill_tok_s, fill.depth, fill.decode_tok_s) == (905.0, 512, None)
    assert result.tool_version == "b11434"
    assert any("slowest" in note for note in result.notes)
    assert any("row 1: the first repeat" in note for note in result.notes)
    assert outcome(result)["tokens_reconcile"]


def test_a_mixed_llama_bench_row_is_neither_prefill_nor_decode(tmp_path: Path) -> None:
    (row,) = read_file(write(tmp_path, [LLAMA | {"n_prompt": 100}])).rows
    assert row.decode_tok_s is None
    assert row.prefill_tok_s is None


def test_batched_bench_divides_by_its_sequences(tmp_path: Path) -> None:
    line = {"pp": 128, "tg": 32, "pl": 4, "speed_pp": 1000.0, "speed_tg": 200.0}
    (row,) = read_file(write(tmp_path, [line])).rows
    assert (row.concurrency, row.output_tok_s, row.decode_tok_s) == (4, 200.0, 50.0)


def guidellm(strategy: dict[str, Any]) -> dict[str, Any]:
    def figure(mean: float) -> dict[str, Any]:
        return {"successful": {"mean": mean, "median": mean, "max": mean * 2, "percentiles": {"p95": mean * 2}}}

    metrics = {
        "request_totals": {"successful": 3, "total": 4},
        "time_to_first_token_ms": figure(100.0),
        "inter_token_latency_ms": figure(10.0),
        "time_per_output_token_ms": figure(12.0),
        "request_latency": figure(0.41),
        "requests_per_second": figure(4.0),
        "output_tokens_per_second": figure(128.0),
        "output_token_count": figure(32.0),
        "request_concurrency": figure(2.0),
    }
    return {"config": {"strategy": strategy}, "metrics": metrics}


def test_guidellms_tpot_is_its_itl_because_its_tpot_has_ttft_inside(tmp_path: Path) -> None:
    report = {
        "metadata": {"version": 2, "guidellm_version": "0.8"},
        "benchmarks": [guidellm({"type_": "concurrent", "streams": 3})],
    }
    result = read_file(write(tmp_path, report))
    (row,) = result.rows
    assert row.tpot_s is not None
    assert row.tpot_s["mean"] == pytest.approx(0.01)
    assert (row.concurrency, row.requests, row.completed) == (3, 4, 3)
    assert outcome(result)["in_flight_le_concurrency"] is False  # 4 at a limit of 3
    assert outcome(result)["latency_is_ttft_plus_decode"]
    assert "too few" in result.notes[0]


def test_guidellms_cap_of_an_open_loop_is_no_concurrency(tmp_path: Path) -> None:
    report = {"metadata": {}, "benchmarks": [guidellm({"type_": "constant", "rate": 2.0, "max_concurrency": 10240})]}
    (row,) = read_file(write(tmp_path, report)).rows
    assert row.concurrency is None
    assert row.setting == "constant 2/s"


def test_aiperf_against_a_known_truth() -> None:
    """The truth: TTFT 100 ms, 10 ms a token, 4 tokens a chunk."""
    result = read_file(FIXTURES / "aiperf-0.13.0-spec4.json")
    (row,) = result.rows
    assert row.ttft_s is not None
    assert row.tpot_s is not None
    assert row.chunk_gap_s is not None
    assert row.ttft_s["mean"] == pytest.approx(0.10999, abs=1e-5)
    assert row.tpot_s["mean"] == pytest.approx(0.010019, abs=1e-6)
    assert row.chunk_gap_s["mean"] == pytest.approx(0.04008, abs=1e-5)
    assert all(outcome(result).values())
    assert "4 tokens" in result.notes[0]


def test_aiperfs_records_are_pooled() -> None:
    (row,) = read_file(FIXTURES / "aiperf-0.13.0-spec4-records.jsonl").rows
    assert (row.requests, row.completed) == (1, 1)
    assert row.e2e_s is not None
    assert row.e2e_s["mean"] == pytest.approx(1.352269, abs=1e-6)


def test_a_llama_benchy_outlier_is_named(tmp_path: Path) -> None:
    entry = {
        "concurrency": 2, "context_size": 0, "prompt_size": 2048, "response_size": 32,
        "pp_throughput": {"mean": 1900.0, "values": [2132.0, 1820.0, 1815.0]},
        "pp_req_throughput": {"mean": 950.0, "std": 1.0, "values": []},
        "tg_throughput": {"mean": 98.0, "std": 1.0, "values": []},
        "tg_req_throughput": {"mean": 50.0, "std": 1.0, "values": []},
        "peak_throughput": {"mean": 90.0}, "e2e_ttft": {"mean": 2000.0, "std": 10.0, "values": [2000.0]},
    }  # fmt: skip
    result = read_file(write(tmp_path, {"version": "0.4", "prefix_caching_enabled": True, "benchmarks": [entry]}))
    assert any("2132" in note for note in result.notes)
    assert any("caching was on" in note for note in result.notes)
    expected = {"completed_gt_0": True, "peak_ge_mean": False, "total_le_streams": True}
    assert outcome(result) == expected | {"nothing_negative": True, "percentiles_ascend": None}
    assert result.rows[0].ttft_s is not None
    assert result.rows[0].ttft_s["mean"] == 2.0


def inference_perf() -> tuple[dict[str, Any], dict[str, Any]]:
    client = {
        "load_summary": {"count": 100, "requested_rate": 5.0},
        "successes": {
            "count": 100,
            "latency": {
                "request_latency": {"mean": 0.9},
                "time_to_first_token": {"mean": 0.04},
                "time_per_output_token": {"mean": 0.0075},
                "inter_token_latency": {"mean": 0.0075, "median": 0.00004},
            },
            "throughput": {"output_tokens_per_sec": 300.0, "requests_per_sec": 5.0},
            "output_len": {"mean": 63.0},
        },
        "failures": {"count": 0},
    }
    server = {
        "load_summary": {},
        "successes": {
            "count": 220, "rate": 11.0, "prompt_len": {"mean": 5000, "rate": 2200.0},
            "time_to_first_token": {"mean": 0.025}, "time_per_output_token": {"mean": 0.015},
        },
        "failures": {},
    }  # fmt: skip
    return client, server


def test_inference_perfs_two_views_are_checked_alone_and_against_each_other(tmp_path: Path) -> None:
    client, server = (
        read_file(write(tmp_path, view, f"{number}.json")) for number, view in enumerate(inference_perf())
    )
    assert outcome(client)["latency_is_ttft_plus_decode"] is False
    assert outcome(client)["gaps_are_token_times"] is False
    assert outcome(server)["tokens_reconcile"] is False
    crossed = {check.name: check.ok for check in cross_check([client, server])}
    assert crossed == {"requests_are_ours": False, "client_ttft_ge_server": True, "tokens_reconcile": False}
    assert cross_check([client]) == ()


def test_sglangs_lines_are_read(tmp_path: Path) -> None:
    line = {
        "backend": "sglang-oai", "dataset_name": "random", "completed": 10, "total_output_tokens": 1000,
        "total_output_tokens_retokenized": 900, "max_concurrency": 4, "mean_ttft_ms": 50.0, "mean_tpot_ms": 10.0,
        "mean_e2e_latency_ms": 1040.0, "output_throughput": 300.0, "request_throughput": 3.0, "accept_length": 2.5,
    }  # fmt: skip
    result = read_file(write(tmp_path, json.dumps(line), "out.jsonl"))
    assert outcome(result)["tokens_reconcile"] is False
    assert outcome(result)["latency_is_ttft_plus_decode"]


@pytest.mark.parametrize(
    ("content", "words"),
    [("not json", "neither JSON nor"), ("[]", "no JSON object"), ("3", "no JSON object"), ('{"a": 1}', "keys are a")],
)
def test_a_file_of_no_known_tool_is_refused_with_its_keys(tmp_path: Path, content: str, words: str) -> None:
    with pytest.raises(ImportFormatError, match=words):
        read_file(write(tmp_path, content))


def test_a_known_format_that_is_damaged_says_so(tmp_path: Path) -> None:
    with pytest.raises(ImportFormatError, match="damaged"):
        read_file(write(tmp_path, [LLAMA | {"samples_ts": ["fast"]}]))
    with pytest.raises(ImportFormatError, match="cannot be read"):
        read_file(tmp_path / "nowhere.json")


@given(st.recursive(st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=5),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
                        st.sampled_from(["benchmarks", "model_id", "output_throughput", "metrics", "aiperf_version",
                                         "completed", "successes", "load_summary", "failures", "n_gen"]),
                        inner, max_size=4)))  # fmt: skip
def test_any_json_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: Any) -> None:
    path = write(tmp_path_factory.mktemp("any"), content)
    with suppress(ImportFormatError):
        assert read_file(path).definitions


WHOLE: tuple[Any, ...] = (VLLM, LLAMA, guidellm({"type_": "synchronous"}), inference_perf()[0], inference_perf()[1])


def places(document: Any) -> Iterator[tuple[Any, ...]]:
    """The way to every value in it."""
    for key in document if isinstance(document, dict) else range(len(document)) if isinstance(document, list) else ():
        yield (key,)
        yield from ((key, *deeper) for deeper in places(document[key]))


def spoiled(document: Any, place: Sequence[Any], value: Any) -> Any:
    """A copy with another value in that place; the place itself is gone where the value is `...`."""
    copy = json.loads(json.dumps(document))
    *way, last = place
    inner = copy
    for key in way:
        inner = inner[key]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return copy


VALUES = st.one_of(
    st.just(...), st.none(), st.booleans(), st.text(max_size=3), st.floats(allow_nan=True),
    st.sampled_from([0, -1, 10**400, 1e308, 5e-324, [], {}, [None], ["x"], [10**400], {"mean": "x"}, {"value": []}]),
)  # fmt: skip


@given(st.data())
def test_a_result_with_any_one_value_spoiled_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    document = data.draw(st.sampled_from(WHOLE))
    place = data.draw(st.sampled_from(list(places(document))))
    path = write(tmp_path_factory.mktemp("spoiled"), spoiled(document, place, data.draw(VALUES)))
    with suppress(ImportFormatError):
        result = read_file(path)
        json.dumps(result.to_json(), allow_nan=False)
        assert isinstance(result.model, str | None)
        assert isinstance(result.tool_version, str | None)


def test_a_count_that_no_float_can_hold_is_unknown(tmp_path: Path) -> None:
    assert read_file(write(tmp_path, VLLM | {"completed": 10**400})).rows[0].completed is None


@pytest.mark.parametrize(
    ("changed", "failing", "detail"),
    [
        ({"median_ttft_ms": -1}, "nothing_negative", "ttft_s median -0.001"),
        ({"p99_ttft_ms": 100.0}, "percentiles_ascend", "ttft_s: median 0.19, p99 0.1"),
        ({"median_e2el_ms": 9.0, "p90_e2el_ms": 8.0}, "percentiles_ascend", "e2e_s: median 0.009, p90 0.008"),
    ],
)
def test_figures_that_no_measurement_has_are_named(
    tmp_path: Path, changed: dict[str, float], failing: str, detail: str
) -> None:
    found = {check.name: check for check in read_file(write(tmp_path, VLLM | changed)).invariants}
    assert (found[failing].ok, found[failing].detail) == (False, detail)


def test_imports_enter_the_store_under_their_own_tool(tmp_path: Path) -> None:
    measurements = open_store(tmp_path / "gearshift.db").measurements
    path = write(tmp_path, VLLM)
    number = keep(read_file(path), measurements, file=path, at=100.0)

    found = measurements.experiment(number)

    assert (found.record.tool, found.record.model, found.state) == ("vllm bench serve", "org/model", "done")
    assert [cell.record.valid for cell in found.cells] == [False]  # its peak lies below its mean
    assert found.cells[0].record.figures["ttft_s"]["mean"] == 0.2
    shown = experiment_json(found)["cells"]
    assert isinstance(shown, list)
    assert shown[0]["valid"] is False
    with pytest.raises(IncomparableError, match="no valid cell"):
        diff(found, found)


def test_two_imports_of_one_tool_are_compared_by_what_it_states(tmp_path: Path) -> None:
    measurements = open_store(tmp_path / "gearshift.db").measurements
    sound = {key: value for key, value in VLLM.items() if key != "max_output_tokens_per_s"}
    numbers = []
    for name, changes in (
        ("a.json", {}),
        ("b.json", {"output_throughput": 110.0, "mean_tpot_ms": 27.0, "mean_itl_ms": 81.0}),
    ):
        path = write(tmp_path, sound | {"mean_e2el_ms": None} | changes, name)
        numbers.append(keep(read_file(path), measurements, file=path, at=1.0))
    changes_ = diff(*(measurements.experiment(number) for number in numbers))
    found = {change.figure: change.change for change in changes_}
    assert found["output_tok_s"] == pytest.approx(0.1)
    assert found["tpot_s"] == pytest.approx(-0.1)
    assert all(change.apart is None for change in changes_)
    assert "110.0" in to_csv([measurements.experiment(numbers[1])])


def test_a_mean_is_never_compared_with_a_median(tmp_path: Path) -> None:
    measurements = open_store(tmp_path / "gearshift.db").measurements
    sound = {key: value for key, value in VLLM.items() if key not in {"max_output_tokens_per_s", "mean_e2el_ms"}}
    numbers = []
    for name, changes in (("a.json", {}), ("b.json", {"median_ttft_ms": None, "mean_ttft_ms": 220.0})):
        path = write(tmp_path, sound | changes, name)
        numbers.append(keep(read_file(path), measurements, file=path, at=1.0))
    changes_ = diff(*(measurements.experiment(number) for number in numbers))
    (ttft,) = (change for change in changes_ if change.figure == "ttft_s")
    assert [ttft.a, ttft.b] == pytest.approx([0.2, 0.22])  # their means: the first has a median of 0.19 too


EXPECTED = {
    "vllm_bench_serve_v0.25.1.json": {"in_flight_le_concurrency"},
    "inference_perf_eagle_stage2_lifecycle.json": {"latency_is_ttft_plus_decode", "gaps_are_token_times"},
    "inference_perf_eagle_stage2_prometheus.json": {"tokens_reconcile"},
    "llama_bench_qwen3.6-27b_depth_curve.jsonl": set(),
    "llama_benchy_v0.2.2_sample.json": set(),
    "guidellm_v0.8.0_report_v2.json": set(),
    "aiperf_v0.13.0_fakeserver_spec4.json": set(),
    "aiperf_v0.13.0_fakeserver_spec4_records.jsonl": set(),
}


@in_place
@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_every_published_sample_is_read_with_its_failing_invariants_named(name: str) -> None:
    result = read_file(SAMPLES / name)
    assert {check for check, ok in outcome(result).items() if ok is False} == EXPECTED[name]
    assert result.rows
    json.dumps(result.to_json())


@in_place
def test_the_published_depth_curve_falls_by_an_eighth() -> None:
    rows = read_file(SAMPLES / "llama_bench_qwen3.6-27b_depth_curve.jsonl").rows
    first, last = rows[0].decode_tok_s, rows[-1].decode_tok_s
    assert first is not None
    assert last is not None
    assert (rows[0].depth, rows[-1].depth) == (0, 65536)
    assert last / first - 1 == pytest.approx(-0.124, abs=0.001)
