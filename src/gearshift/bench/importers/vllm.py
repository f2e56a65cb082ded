"""``vllm bench serve`` (Python and Rust), its sweeps' ``summary.json`` and the Rust multi-turn mode.

Formats: vllm/benchmarks/serve.py of 0.25 to 0.33. Keys end in ``_ms``, detailed lists are in seconds. Its ITL is the
gap between stream events, so here it is the chunk gap. Seed, dataset, lengths and versions are not in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from statistics import fmean

from gearshift.bench.counters import Acceptance
from gearshift.bench.importers.imported import Document, Imported, ImportedRow, Summary, merge, number, text, whole
from gearshift.stats import invariants
from gearshift.stats.invariants import Check

DEFINITIONS = {
    "ttft_s": "send to the first event with content, reasoning or a tool call; not reasoning_content",
    "tpot_s": "(latency - TTFT) / (output length - 1) per request",
    "chunk_gap_s": "its ITL: gaps between stream events, pooled over requests",
    "e2e_s": "its E2EL: send to the last token event",
    "output_tok_s": "all output tokens over the duration",
    "peak": "stream events a second in buckets of one second, not tokens",
}
_KEY = re.compile(r"(mean|median|std|p\d+(?:\.\d+)?)_(ttft|tpot|itl|e2el)_ms")


def matches(rows: Sequence[Document]) -> bool:
    """One run, a sweep's list, or appended lines."""
    first = rows[0]
    return "model_id" in first and ("output_throughput" in first or first.get("mode") == "multi_turn")


def read(rows: Sequence[Document]) -> Imported:
    """One row a run."""
    found = [_row(source) for source in rows]
    checks = [tuple(_checks(source, row)) for source, row in zip(rows, found, strict=True)]
    first = rows[0]
    return Imported(
        tool="vllm bench serve" if first.get("mode") != "multi_turn" else "vllm bench multi-turn",
        tool_version=None,
        model=text(first["model_id"]),
        definitions=DEFINITIONS,
        rows=tuple(found),
        invariants=merge(checks),
        notes=("seed, dataset, lengths and versions are not in the file",),
        conditions={key: first.get(key) for key in ("date", "backend", "endpoint_type", "request_rate", "burstiness")},
    )


def _row(source: Document) -> ImportedRow:
    completed = whole(source.get("completed", source.get("conversations_completed")))
    total = number(source.get("total_output_tokens"))
    # A run without a success writes latencies of 0: they are not figures.
    latencies = source if completed != 0 else {}
    return ImportedRow(
        concurrency=whole(source.get("max_concurrency", source.get("multi_turn_concurrency"))),
        requests=whole(source.get("num_prompts", source.get("num_conversations"))),
        completed=completed,
        ttft_s=_summary(latencies, "ttft"),
        tpot_s=_summary(latencies, "tpot"),
        chunk_gap_s=_summary(latencies, "itl"),
        e2e_s=_summary(latencies, "e2el"),
        output_tok_s=number(source.get("output_throughput")),
        request_s=number(source.get("request_throughput")),
        acceptance=_acceptance(source),
        output=total / completed if total is not None and completed else None,
        setting=str(source.get("label") or ""),
    )


def _summary(source: Document, figure: str) -> Summary | None:
    found = {
        match[1]: stated / 1000
        for key, value in source.items()
        if (match := _KEY.fullmatch(key)) and match[2] == figure and (stated := number(value)) is not None
    }
    return found or None


def _acceptance(source: Document) -> Acceptance | None:
    length = number(source.get("spec_decode_acceptance_length"))
    if length is None:
        return None
    return Acceptance(tuple(source.get("spec_decode_per_position_acceptance_rates") or ()), length)


def _checks(source: Document, row: ImportedRow) -> Iterator[Check]:
    gap, tpot, ttft, e2e = (
        (figure or {}).get("mean") for figure in (row.chunk_gap_s, row.tpot_s, row.ttft_s, row.e2e_s)
    )
    length = row.acceptance.mean_length if row.acceptance else None
    yield invariants.completed_gt_0(row.completed)
    yield invariants.in_flight_le_concurrency(number(source.get("max_concurrent_requests")), row.concurrency)
    yield invariants.peak_ge_mean(number(source.get("max_output_tokens_per_s")), row.output_tok_s)
    yield invariants.acceptance_sums_to_length(row.acceptance.per_position if row.acceptance else None, length)
    yield invariants.itl_over_length_is_tpot(gap, length, tpot)
    yield invariants.latency_is_ttft_plus_decode(e2e, ttft, tpot, row.output)
    lengths = source.get("output_lens")
    counted = float(sum(lengths)) if isinstance(lengths, list) else None
    yield invariants.tokens_reconcile({"total": number(source.get("total_output_tokens")), "lengths": counted})
    yield invariants.little(row.request_s, _latency(source, row), row.concurrency)


def _latency(source: Document, row: ImportedRow) -> float | None:
    """Mean time in the system: stated, else from the raw latencies, else from TTFT and TPOT."""
    if row.e2e_s is not None and "mean" in row.e2e_s:
        return row.e2e_s["mean"]
    if isinstance(latencies := source.get("latencies"), list) and latencies:
        return fmean(latencies)
    if row.ttft_s and row.tpot_s and row.output and "mean" in row.ttft_s and "mean" in row.tpot_s:
        return row.ttft_s["mean"] + row.tpot_s["mean"] * (row.output - 1)
    return None
