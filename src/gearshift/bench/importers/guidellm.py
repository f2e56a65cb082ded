"""guidellm reports, version 2 and the older ones without ``config.spec``.

Its ``time_per_output_token_ms`` includes the time to first token; what we call TPOT is its ``inter_token_latency_ms``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gearshift.bench.importers.imported import (
    Document,
    Imported,
    ImportedRow,
    Summary,
    has_benchmarks,
    merge,
    number,
    summary,
    text,
    whole,
)
from gearshift.stats import invariants
from gearshift.stats.invariants import Check

DEFINITIONS = {
    "ttft_s": "request start to the first iteration with content, reasoning or a tool call",
    "tpot_s": "its inter_token_latency_ms: (last - first) / (output - 1); its time_per_output_token_ms has TTFT inside",
    "e2e_s": "request start to request end",
    "output_tok_s": "mean of its distribution of output tokens over time",
}
_NAMES = {"mean": "mean", "median": "median", "std_dev": "std", "min": "min", "max": "max"}
_PERCENTILES = {"p90": "p90", "p95": "p95", "p99": "p99"}
_FEW = 30  # requests below which its percentiles repeat single requests


def matches(rows: Sequence[Document]) -> bool:
    """A guidellm report of any version."""
    return has_benchmarks(rows, "metrics")


def read(rows: Sequence[Document]) -> Imported:
    """One row a benchmark (a rate or a number of streams)."""
    report = rows[0]
    benchmarks = report["benchmarks"]
    found = tuple(_row(benchmark) for benchmark in benchmarks)
    spec = report.get("config", {}).get("spec", {})
    return Imported(
        tool="guidellm",
        tool_version=text(report.get("metadata", {}).get("guidellm_version")),
        model=text(spec.get("backend", {}).get("model")) or text(report.get("args", {}).get("model")),
        definitions=DEFINITIONS,
        rows=found,
        invariants=merge([tuple(_checks(source, row)) for source, row in zip(benchmarks, found, strict=True)]),
        notes=tuple(_notes(found)),
        conditions={"data": spec.get("data"), "seed": spec.get("seed")},
    )


def _row(benchmark: Document) -> ImportedRow:
    metrics = benchmark["metrics"]
    totals = metrics.get("request_totals", {})
    return ImportedRow(
        concurrency=_streams(_strategy(benchmark)),
        requests=whole(totals.get("total")),
        completed=whole(totals.get("successful")),
        ttft_s=_figure(metrics, "time_to_first_token_ms", 0.001),
        tpot_s=_figure(metrics, "inter_token_latency_ms", 0.001),
        e2e_s=_figure(metrics, "request_latency", 1.0),
        output_tok_s=_mean(metrics, "output_tokens_per_second"),
        request_s=_mean(metrics, "requests_per_second"),
        depth=whole(_mean(metrics, "prompt_token_count")),
        output=_mean(metrics, "output_token_count"),
        setting=_name(_strategy(benchmark)),
    )


def _strategy(benchmark: Document) -> Mapping[str, Any]:
    for place in ("config", "args"):
        if isinstance(found := benchmark.get(place, {}).get("strategy"), dict):
            return found
    return {}


def _streams(strategy: Mapping[str, Any]) -> int | None:
    """Only a loop of fixed streams has a concurrency; ``max_concurrency`` of the others is the client's own cap."""
    kind = strategy.get("type_")
    if kind == "synchronous":
        return 1
    return whole(strategy.get("streams") or strategy.get("max_concurrency")) if kind == "concurrent" else None


def _name(strategy: Mapping[str, Any]) -> str:
    rate = number(strategy.get("rate"))
    kind = str(strategy.get("type_", ""))
    return f"{kind} {rate:g}/s" if rate is not None else kind


def _figure(metrics: Document, name: str, scale: float) -> Summary | None:
    found = metrics.get(name, {}).get("successful") or {}
    percentiles = summary(found.get("percentiles") or {}, _PERCENTILES, scale) or {}
    return {**(summary(found, _NAMES, scale) or {}), **percentiles} or None


def _mean(metrics: Document, name: str) -> float | None:
    return number((metrics.get(name, {}).get("successful") or {}).get("mean"))


def _checks(benchmark: Document, row: ImportedRow) -> Iterator[Check]:
    metrics = benchmark["metrics"]
    ttft, tpot, e2e = ((figure or {}).get("mean") for figure in (row.ttft_s, row.tpot_s, row.e2e_s))
    most = number((metrics.get("request_concurrency", {}).get("successful") or {}).get("max"))
    yield invariants.completed_gt_0(row.completed)
    yield invariants.in_flight_le_concurrency(most, row.concurrency)
    yield invariants.latency_is_ttft_plus_decode(e2e, ttft, tpot, row.output)
    yield invariants.little(row.request_s, e2e, row.concurrency)


def _notes(rows: Sequence[ImportedRow]) -> Iterator[str]:
    for place, row in enumerate(rows, 1):
        if row.completed is not None and row.completed < _FEW:
            yield f"row {place}: {row.completed} requests are too few for percentiles"
