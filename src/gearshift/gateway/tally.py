"""Counters and histograms of requests and swaps, by variant; a Sink that the exposition reads."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field

from gearshift.domain.records import RequestRecord, Sink, SwapRecord

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
PER_TOKEN = (0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0)
TOKENS = (1.0, 8.0, 32.0, 128.0, 512.0, 2048.0, 8192.0, 32768.0, 131072.0, 262144.0)


@dataclass(slots=True)
class Histogram:
    """Counts by upper bound; the last slot is above every bound."""

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def observe(self, value: float | None) -> None:
        """Count a value; an unknown one is no observation."""
        if value is None:
            return
        if not self.counts:
            self.counts = [0] * (len(self.bounds) + 1)
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative counts by bound, as Prometheus wants them."""
        rows: list[tuple[str, float]] = []
        running = 0
        for bound, count in zip((*self.bounds, float("inf")), self.counts or [0] * (len(self.bounds) + 1), strict=True):
            running += count
            rows.append(("+Inf" if bound == float("inf") else repr(bound), float(running)))
        return rows


def _seconds() -> defaultdict[str, Histogram]:
    return defaultdict(lambda: Histogram(SECONDS))


def _tokens() -> defaultdict[str, Histogram]:
    return defaultdict(lambda: Histogram(TOKENS))


@dataclass(slots=True)
class Tally:
    """Everything counted since the start, by variant id. A Sink: never blocks, never raises."""

    requests: defaultdict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))  # variant, outcome
    swaps: defaultdict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))  # variant, result
    queue: defaultdict[str, Histogram] = field(default_factory=_seconds)
    load: defaultdict[str, Histogram] = field(default_factory=_seconds)
    first_token: defaultdict[str, Histogram] = field(default_factory=_seconds)
    duration: defaultdict[str, Histogram] = field(default_factory=_seconds)
    swap_total: defaultdict[str, Histogram] = field(default_factory=_seconds)
    swap_overhead: defaultdict[str, Histogram] = field(default_factory=_seconds)
    per_token: defaultdict[str, Histogram] = field(default_factory=lambda: defaultdict(lambda: Histogram(PER_TOKEN)))
    tokens_in: defaultdict[str, Histogram] = field(default_factory=_tokens)
    tokens_out: defaultdict[str, Histogram] = field(default_factory=_tokens)

    def request(self, record: RequestRecord) -> None:
        """Count a finished request; one that never had a variant says nothing of any variant's times."""
        name = record.variant
        self.requests[name, record.outcome] += 1
        if not name:
            return
        self.queue[name].observe(record.queued_s)
        self.load[name].observe(record.load_s if record.load_s > 0 else None)
        self.first_token[name].observe(_first_token_s(record))
        self.per_token[name].observe(_per_token_s(record))
        self.duration[name].observe(record.ended_s)
        self.tokens_in[name].observe(record.tokens_in)
        self.tokens_out[name].observe(record.tokens_out)

    def swap(self, record: SwapRecord) -> None:
        """Count a finished swap."""
        self.swaps[record.variant, "failed" if record.failure else "ok"] += 1
        self.swap_total[record.variant].observe(record.total_s)
        self.swap_overhead[record.variant].observe(record.overhead_s)


class Fanout:
    """A sink that hands each record to several: control's swaps to the store and to the gateway's tally."""

    def __init__(self, *sinks: Sink) -> None:
        self._sinks = sinks

    def request(self, record: RequestRecord) -> None:
        """Pass a request's record on."""
        for sink in self._sinks:
            sink.request(record)

    def swap(self, record: SwapRecord) -> None:
        """Pass a swap's record on."""
        for sink in self._sinks:
            sink.swap(record)


def _first_token_s(record: RequestRecord) -> float | None:
    """From dispatch to the first token: the engine's share, without queue and load."""
    if record.first_token_s is None or record.dispatched_s is None:
        return None
    return record.first_token_s - record.dispatched_s


def _per_token_s(record: RequestRecord) -> float | None:
    first, last, tokens = record.first_token_s, record.last_token_s, record.tokens_out
    if first is None or last is None or tokens is None or tokens < 2:  # noqa: PLR2004 - one token has no gap
        return None
    return (last - first) / (tokens - 1)
