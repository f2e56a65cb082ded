"""Counters of either engine under one set of names, as differences over a cell.

Sources: vLLM v1/spec_decode/metrics.py and its metric names (0.22 to 0.33), llama-server tools/server/server-task.cpp
(with the speculation counters from August 2026). What llama-server prints has six significant digits, so a difference
of large totals is rounded: `Difference.resolution` says by how much. Its counters move when a request ends, and its two
rate gauges are reset by every reader, which is why they are not used.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

from gearshift.domain.launch import MetricNames
from gearshift.engines import llamacpp, vllm
from gearshift.engines.metrics_page import Series, parse

_SIX_DIGITS = 6
_SILENT_TOKENS = 16  # generated tokens after which a drafter that never drafted is called silent

_COMMON = {  # of `MetricNames`, in our words
    "drafts": "drafts",
    "draft_tokens": "draft_tokens",
    "accepted_tokens": "accepted_tokens",
    "generation_tokens": "generated_tokens",
    "cached_tokens": "cached_tokens",
    "preemptions": "preemptions",
}
_NOW = {"running": "running", "waiting": "waiting", "kv_usage": "kv_use"}


def _named(metrics: MetricNames, words: Mapping[str, str]) -> dict[str, str]:
    """Our words by the engine's names, for what it has."""
    return {series: word for key, word in words.items() if (series := getattr(metrics, key)) is not None}


_NAMES = {
    **_named(vllm.METRICS, {**_COMMON, "prompt_tokens": "prompt_tokens"}),
    "vllm:prefix_cache_queries_total": "cache_queries",
    "vllm:prefix_cache_hits_total": "cache_hits",
    "vllm:request_success_total": "requests",
    "vllm:iteration_tokens_total_count": "steps",
    "vllm:time_to_first_token_seconds_sum": "ttft_sum_s",
    "vllm:time_to_first_token_seconds_count": "ttft_count",
    "vllm:request_time_per_output_token_seconds_sum": "tpot_sum_s",
    "vllm:request_time_per_output_token_seconds_count": "tpot_count",
    **_named(llamacpp.METRICS, {**_COMMON, "prompt_tokens": "evaluated_tokens"}),  # llama-server leaves cached ones out
    "llamacpp:tokens_predicted_seconds_total": "decode_s",
    "llamacpp:prompt_seconds_total": "prefill_s",
    "llamacpp:n_decode_total": "steps",
}
_PER_POSITION = {vllm.METRICS.accepted_per_position, llamacpp.METRICS.accepted_per_position}
_GAUGES = _named(vllm.METRICS, _NOW) | _named(llamacpp.METRICS, _NOW)


@dataclass(frozen=True, slots=True)
class Counters:
    """One reading, or a difference of two. None = the engine has no such counter."""

    prompt_tokens: float | None = None  # with cached ones
    evaluated_tokens: float | None = None  # without (llama-server)
    cached_tokens: float | None = None
    cache_queries: float | None = None  # tokens looked up in the prefix cache
    cache_hits: float | None = None
    generated_tokens: float | None = None
    requests: float | None = None  # finished
    preemptions: float | None = None
    steps: float | None = None
    drafts: float | None = None  # verification steps
    draft_tokens: float | None = None
    accepted_tokens: float | None = None
    accepted_at: tuple[float, ...] = ()  # by position in the draft
    ttft_sum_s: float | None = None
    ttft_count: float | None = None
    tpot_sum_s: float | None = None
    tpot_count: float | None = None
    decode_s: float | None = None
    prefill_s: float | None = None


@dataclass(frozen=True, slots=True)
class Gauges:
    """What the engine is at this moment; ``kv_use`` is a share of the pool."""

    running: float | None = None
    waiting: float | None = None
    kv_use: float | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """One scrape."""

    counters: Counters
    gauges: Gauges
    engine: str | None  # "vllm" | "llama.cpp"


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Speculation over a cell: unconditional acceptance per position (share of all drafts), tokens per drafted step."""

    per_position: tuple[float, ...]
    mean_length: float


@dataclass(frozen=True, slots=True)
class Difference:
    """What happened between two readings of one server."""

    counters: Counters
    reset: bool = False  # the server restarted in between: the difference means nothing
    resolution: float = 0.0  # the coarsest rounding among the token counters, in tokens

    @property
    def acceptance(self) -> Acceptance | None:
        """None without drafts."""
        drafts, accepted = self.counters.drafts, self.counters.accepted_tokens
        if not drafts or accepted is None or self.reset:
            return None
        return Acceptance(tuple(count / drafts for count in self.counters.accepted_at), 1 + accepted / drafts)

    @property
    def cache_hit_share(self) -> float | None:
        """Share of prompt tokens that came from the prefix cache."""
        found = self.counters
        if found.cached_tokens is not None and found.evaluated_tokens is not None:
            total: float | None = found.cached_tokens + found.evaluated_tokens
            return found.cached_tokens / total if total else None
        if found.cache_queries and found.cache_hits is not None:
            return found.cache_hits / found.cache_queries
        return None

    @property
    def silent_speculation(self) -> bool:
        """Tokens are generated and nothing is drafted; means something only where a drafter is configured."""
        found = self.counters
        return found.drafts == 0 and (found.generated_tokens or 0) >= _SILENT_TOKENS


def read(text: str) -> Reading:
    """Counters and gauges in an engine's ``/metrics``; labels (engines, models, reasons) are summed over."""
    totals: dict[str, float] = {}
    gauges: dict[str, float] = {}
    positions: dict[int, float] = {}
    engine: str | None = None
    for series in parse(text):
        if (name := _NAMES.get(series.name)) is not None:
            totals[name] = totals.get(name, 0.0) + series.value
            engine = "vllm" if series.name.startswith("vllm:") else "llama.cpp"
        elif series.name in _PER_POSITION:
            _add_position(positions, series)
        elif (name := _GAUGES.get(series.name)) is not None:
            gauges[name] = gauges.get(name, 0.0) + series.value
    accepted_at = tuple(positions[position] for position in sorted(positions))
    return Reading(Counters(**totals, accepted_at=accepted_at), Gauges(**gauges), engine)


def difference(before: Reading, after: Reading) -> Difference:
    """After minus before. A counter that fell means that the server restarted."""
    then, now = before.counters, after.counters
    values: dict[str, float | None] = {}
    for name in _number_fields():
        old, new = getattr(then, name), getattr(now, name)
        values[name] = None if new is None else new - (old or 0.0)
    accepted_at = _minus(now.accepted_at, then.accepted_at)
    counters = Counters(**values, accepted_at=accepted_at)
    fell = any(value is not None and value < 0 for value in values.values()) or any(count < 0 for count in accepted_at)
    coarse = _resolution(now) if after.engine == "llama.cpp" else 0.0
    return Difference(counters, reset=fell, resolution=coarse)


def _number_fields() -> Iterable[str]:
    return (field.name for field in fields(Counters) if field.name != "accepted_at")


def _minus(now: tuple[float, ...], then: tuple[float, ...]) -> tuple[float, ...]:
    """llama-server's positions appear with the first draft that was accepted there: what was absent is 0."""
    padded = [*then, *[0.0] * (len(now) - len(then))]
    return tuple(new - old for new, old in zip(now, padded, strict=False))


def _resolution(counters: Counters) -> float:
    known = [counters.generated_tokens, counters.evaluated_tokens, counters.cached_tokens, counters.draft_tokens]
    largest = max((value for value in known if value), default=0.0)
    digits = math.floor(math.log10(largest)) + 1 if largest >= 1 else 1
    return 10.0 ** (digits - _SIX_DIGITS) if digits > _SIX_DIGITS else 0.0


def _add_position(positions: dict[int, float], series: Series) -> None:
    label = series.labels.get("position", "")
    if label.isdigit():
        positions[int(label)] = positions.get(int(label), 0.0) + series.value
