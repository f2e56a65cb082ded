"""Metrics pages of real engines, read in place where the samples are beside this checkout."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gearshift.bench.counters import Counters, read

SAMPLES = Path(os.environ.get("GEARSHIFT_SAMPLES") or Path(__file__).parents[3] / "shared" / "samples")
_WARM_UP = 32  # tokens of the one request before the first cell

pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason="the public samples are not beside this checkout")


def page(name: str) -> Counters:
    return read((SAMPLES / name).read_text(encoding="utf-8")).counters


@pytest.mark.parametrize(("tag", "requests"), [("off", 164), ("mtp3", 125)])
def test_a_page_counts_what_the_client_of_the_h200_saw(tag: str, requests: int) -> None:
    rows = [json.loads(line) for line in (SAMPLES / f"h200/{tag}.jsonl").read_text(encoding="utf-8").splitlines()]
    counted = page(f"h200/metrics_{tag}.txt")
    assert counted.generated_tokens == sum(row["delta"]["generation_tokens_total"] for row in rows) + _WARM_UP
    assert counted.requests == sum(row["n"] for row in rows) + 1 == requests
    assert (counted.preemptions, counted.cache_hits) == (0, 0)


def test_drafts_are_counted_by_position() -> None:
    drafted = page("h200/metrics_mtp3.txt")
    assert (drafted.drafts, drafted.draft_tokens, drafted.accepted_tokens) == (9287, 3 * 9287, 21_959)
    assert drafted.accepted_at == (8450, 7435, 6074)
    assert sum(drafted.accepted_at) == drafted.accepted_tokens
    assert page("h200/metrics_off.txt").drafts is None


def test_a_page_under_load_tells_running_requests_from_finished_ones() -> None:
    reading = read((SAMPLES / "bench/vllm_metrics_v0.25.1_loaded.prom.txt").read_text(encoding="utf-8"))
    assert (reading.counters.requests, reading.counters.ttft_count, reading.gauges.running) == (600, 664, 64)
    assert (reading.counters.cache_queries, reading.counters.cache_hits) == (339_968, 2_480)
    assert reading.gauges.waiting == 64
    assert reading.gauges.kv_use == pytest.approx(0.112, abs=0.001)
