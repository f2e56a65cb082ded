"""sglang's serving benchmark JSONL. Written from its source (serving.py of 0.5.23); no public file was at hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gearshift.bench.counters import Acceptance
from gearshift.bench.importers.imported import Document, Imported, ImportedRow, Summary, merge, number, summary, whole
from gearshift.stats import invariants
from gearshift.stats.invariants import Check

DEFINITIONS = {
    "tpot_s": "(latency - TTFT) / (output - 1); the latency includes the usage chunk and the end mark",
    "chunk_gap_s": "its ITL: gaps between chunks, on some backends divided by re-tokenised tokens",
    "acceptance": "the server's lifetime average, not this run's",
}
_STATISTICS = ("mean", "median", "std", "p90", "p95", "p99")


def matches(rows: Sequence[Document]) -> bool:
    """Lines of its result file."""
    return {"backend", "dataset_name", "total_output_tokens_retokenized"} <= rows[0].keys()


def read(rows: Sequence[Document]) -> Imported:
    """One row a run."""
    found = tuple(_row(source) for source in rows)
    checks = [tuple(_checks(source, row)) for source, row in zip(rows, found, strict=True)]
    return Imported("sglang bench_serving", None, None, DEFINITIONS, found, merge(checks))


def _row(source: Document) -> ImportedRow:
    completed = whole(source.get("completed"))
    length, total = number(source.get("accept_length")), number(source.get("total_output_tokens"))
    return ImportedRow(
        concurrency=whole(source.get("max_concurrency")),
        completed=completed,
        ttft_s=_seconds(source, "ttft"),
        tpot_s=_seconds(source, "tpot"),
        chunk_gap_s=_seconds(source, "itl"),
        e2e_s=_seconds(source, "e2e_latency"),
        output_tok_s=number(source.get("output_throughput")),
        request_s=number(source.get("request_throughput")),
        acceptance=Acceptance((), length) if length is not None else None,
        output=total / completed if total is not None and completed else None,
    )


def _seconds(source: Document, figure: str) -> Summary | None:
    return summary(source, {f"{name}_{figure}_ms": name for name in _STATISTICS}, 0.001)


def _checks(source: Document, row: ImportedRow) -> Iterator[Check]:
    ttft, tpot, e2e = ((figure or {}).get("mean") for figure in (row.ttft_s, row.tpot_s, row.e2e_s))
    yield invariants.completed_gt_0(row.completed)
    yield invariants.in_flight_le_concurrency(number(source.get("max_concurrent_requests")), row.concurrency)
    yield invariants.peak_ge_mean(number(source.get("max_output_tokens_per_s")), row.output_tok_s)
    yield invariants.latency_is_ttft_plus_decode(e2e, ttft, tpot, row.output)
    counts = {
        "usage": number(source.get("total_output_tokens")),
        "retokenised": number(source.get("total_output_tokens_retokenized")),
    }
    yield invariants.tokens_reconcile(counts)
    yield invariants.little(row.request_s, e2e, row.concurrency)
