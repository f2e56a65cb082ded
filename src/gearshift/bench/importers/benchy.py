"""llama-benchy results: milliseconds and tokens a second; one entry a combination of depth, lengths and concurrency."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gearshift.bench.importers.imported import (
    Document,
    Imported,
    ImportedRow,
    Summary,
    has_benchmarks,
    merge,
    number,
    text,
    whole,
)
from gearshift.stats import first_is_odd, invariants, percentile
from gearshift.stats.invariants import Check

DEFINITIONS = {
    "prefill_tok_s": "prompt tokens over (time to first response - latency), per request",
    "decode_tok_s": "tokens after the first stamp over their time, per request",
    "output_tok_s": "tg_throughput: decode phase of all streams together",
    "ttft_s": "its e2e_ttft; its ttfr is the first response, which may be an empty role chunk",
    "tpot_s": "1 / decode_tok_s",
}


def matches(rows: Sequence[Document]) -> bool:
    """A llama-benchy report."""
    return has_benchmarks(rows, "tg_throughput")


def read(rows: Sequence[Document]) -> Imported:
    """One row an entry."""
    report = rows[0]
    benchmarks = report["benchmarks"]
    found = tuple(_row(source) for source in benchmarks)
    notes = [*_notes(found)]
    if report.get("prefix_caching_enabled"):
        notes.append("prefix caching was on: a later depth may have been partly cached")
    return Imported(
        tool="llama-benchy",
        tool_version=text(report.get("version")),
        model=text(report.get("model")),
        definitions=DEFINITIONS,
        rows=found,
        invariants=merge([tuple(_checks(source, row)) for source, row in zip(benchmarks, found, strict=True)]),
        notes=tuple(notes),
        conditions={key: report.get(key) for key in ("timestamp", "latency_mode", "latency_ms")},
    )


def _row(source: Document) -> ImportedRow:
    decode, ttft = _mean(source, "tg_req_throughput"), source.get("e2e_ttft")
    count = len((ttft or {}).get("values") or ())
    return ImportedRow(
        concurrency=whole(source.get("concurrency")),
        requests=count or None,
        completed=count or None,
        ttft_s=_seconds(ttft) if isinstance(ttft, dict) else None,
        tpot_s={"mean": 1 / decode} if decode else None,
        output_tok_s=_mean(source, "tg_throughput"),
        prefill_tok_s=_mean(source, "pp_req_throughput"),
        decode_tok_s=decode,
        depth=(whole(source.get("context_size")) or 0) + (whole(source.get("prompt_size")) or 0),
        output=number(source.get("response_size")),
        setting="context prefill" if source.get("is_context_prefill_phase") else "",
        repeats=tuple((source.get("pp_throughput") or {}).get("values") or ()),
    )


def _seconds(figure: Document) -> Summary:
    found = {"mean": float(figure["mean"]) / 1000, "std": float(figure["std"]) / 1000}
    values = [float(value) / 1000 for value in figure.get("values") or ()]
    return found | ({"median": percentile(values, 50)} if values else {})


def _checks(source: Document, row: ImportedRow) -> Iterator[Check]:
    yield invariants.completed_gt_0(row.completed)
    yield invariants.peak_ge_mean(_mean(source, "peak_throughput"), row.output_tok_s)
    streams = row.concurrency or 1
    together = row.decode_tok_s * streams if row.decode_tok_s else None
    if together is not None and row.output_tok_s is not None:
        ok = row.output_tok_s <= together * 1.05
        detail = f"total {row.output_tok_s:.4g} tok/s, {streams} x {row.decode_tok_s:.4g} per stream"
        yield Check("total_le_streams", ok, detail)


def _notes(rows: Sequence[ImportedRow]) -> Iterator[str]:
    for place, row in enumerate(rows, 1):
        if first_is_odd(row.repeats):
            rest = ", ".join(f"{value:.4g}" for value in row.repeats[1:])
            yield f"row {place}: the first run's prefill ({row.repeats[0]:.4g} tok/s) lies apart from the rest ({rest})"


def _mean(source: Document, name: str) -> float | None:
    figure = source.get(name)
    return number(figure.get("mean")) if isinstance(figure, dict) else None
