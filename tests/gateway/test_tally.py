from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gearshift.domain.launch import MetricNames
from gearshift.domain.records import RequestRecord, SwapRecord
from gearshift.gateway import Fanout, Tally
from gearshift.gateway.exposition import neutral_figures
from gearshift.gateway.tally import SECONDS, Histogram

RECORD = RequestRecord(
    id="1", arrived=0.0, variant="m:v", path="/", status=200, queued_s=0.5, load_s=0.0, dispatched_s=1.0,
    first_byte_s=1.1, first_token_s=1.5, last_token_s=2.5, ended_s=2.6, tokens_in=7, tokens_out=11,
    cached_tokens=None, draft_tokens=None, accepted_tokens=None, events=12, outcome="ok",
)  # fmt: skip
SWAP = SwapRecord(
    at=0.0, variant="m:v", stopped=(), drain_s=0, stop_s=0, memory_s=0, load_s=1, probe_s=0.1, overhead_s=0.01,
    total_s=1.11, cold=True,
)  # fmt: skip


@given(st.lists(st.floats(min_value=0, max_value=1000), max_size=30))
def test_a_histogram_counts_each_value_once_and_its_buckets_never_fall(values: list[float]) -> None:
    histogram = Histogram(SECONDS)
    for value in values:
        histogram.observe(value)
    counts = [count for _, count in histogram.buckets()]
    assert counts == [float(sum(value <= bound for value in values)) for bound in SECONDS] + [float(len(values))]


def test_the_first_token_is_timed_from_dispatch_and_the_gap_by_server_counts() -> None:
    tally = Tally()
    tally.request(RECORD)
    assert tally.first_token["m:v"].total == 0.5
    assert tally.per_token["m:v"].total == 0.1
    assert tally.queue["m:v"].total == 0.5


def test_what_is_unknown_is_no_observation() -> None:
    tally = Tally()
    tally.request(replace(RECORD, first_token_s=None, last_token_s=None, tokens_in=None, tokens_out=None))
    tally.request(replace(RECORD, tokens_out=1))
    assert tally.per_token["m:v"].buckets()[-1] == ("+Inf", 0.0)
    assert tally.tokens_in["m:v"].buckets()[-1] == ("+Inf", 1.0)
    assert tally.load["m:v"].buckets()[-1] == ("+Inf", 0.0)


def test_swaps_reach_every_sink_and_failures_are_told_apart() -> None:
    tally, other = Tally(), Tally()
    sink = Fanout(tally, other)
    sink.swap(SWAP)
    sink.swap(replace(SWAP, failure="out of memory"))
    sink.request(RECORD)
    for counted in (tally, other):
        assert counted.swaps == {("m:v", "ok"): 1, ("m:v", "failed"): 1}
        assert counted.requests == {("m:v", "ok"): 1}
        assert counted.swap_overhead["m:v"].total == 0.02


VLLM = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 1.0
vllm:num_requests_running{engine="1",model_name="m"} 2.0
# TYPE vllm:generation_tokens counter
vllm:generation_tokens_total{engine="0",model_name="m"} 40.0
vllm:generation_tokens_created{engine="0",model_name="m"} 1.7e+09
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 9.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 4.0
"""


def test_an_engines_figures_are_summed_under_neutral_names() -> None:
    names = MetricNames(
        running="vllm:num_requests_running",
        generation_tokens="vllm:generation_tokens_total",
        accepted_per_position="vllm:spec_decode_num_accepted_tokens_per_pos_total",
        drafts="vllm:spec_decode_num_drafts_total",
    )
    assert neutral_figures(VLLM, names) == {
        "running": {"": 3.0},
        "generation_tokens": {"": 40.0},
        "accepted_per_position": {"0": 9.0, "1": 4.0},
    }


def test_an_engine_without_names_has_no_figures() -> None:
    assert neutral_figures(VLLM, MetricNames()) == {}


def test_a_request_without_a_variant_is_counted_and_timed_for_none() -> None:
    tally = Tally()
    tally.request(replace(RECORD, variant="", outcome="refused"))
    assert tally.requests == {("", "refused"): 1}
    assert not tally.duration
