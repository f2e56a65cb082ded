"""aiperf exports: the summary (schema 1.3 and 1.4) and the records JSONL. Every metric carries its unit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gearshift.bench.importers.imported import (
    Document,
    Imported,
    ImportedRow,
    Summary,
    merge,
    number,
    summary,
    text,
    whole,
)
from gearshift.stats import invariants, percentile
from gearshift.stats.invariants import Check

DEFINITIONS = {
    "ttft_s": "send to the first chunk with content, reasoning, reasoning_content or a tool call",
    "tpot_s": "its inter token latency: (latency - TTFT) / (output length - tokens of the first chunk, else 1)",
    "chunk_gap_s": "its inter chunk latency; its time to second token is the time to the second chunk",
    "e2e_s": "send to the last response",
    "output_tok_s": "all output tokens over last end minus first start",
    "tokens": "by a client tokenizer unless --use-server-token-count was given",
}
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "sec": 1.0, "s": 1.0}
_NAMES = {"avg": "mean", "p50": "median", "p90": "p90", "p95": "p95", "p99": "p99", "min": "min", "max": "max",
          "std": "std"}  # fmt: skip


def matches(rows: Sequence[Document]) -> bool:
    """An aiperf export."""
    return "aiperf_version" in rows[0]


def read(rows: Sequence[Document]) -> Imported:
    """One row: the profile."""
    export = rows[0]
    row = _row(export)
    config = export.get("input_config", {})
    return Imported(
        tool="aiperf",
        tool_version=text(export.get("aiperf_version")),
        model=_model(config),
        definitions=DEFINITIONS,
        rows=(row,),
        invariants=merge([tuple(_checks(export, row))]),
        notes=tuple(_notes(export)),
        conditions={
            "cli_command": export.get("run_info", {}).get("cli_command"),
            "server_token_count": config.get("endpoint", {}).get("use_server_token_count"),
        },
    )


def _row(export: Document) -> ImportedRow:
    completed = whole(_value(export, "completed_request_count") or _value(export, "request_count"))
    errors = number(_value(export, "error_request_count")) or 0
    return ImportedRow(
        concurrency=_concurrency(export.get("input_config", {})),
        requests=None if completed is None else completed + int(errors),
        completed=completed,
        ttft_s=_seconds(export, "time_to_first_token"),
        tpot_s=_seconds(export, "inter_token_latency"),
        chunk_gap_s=_seconds(export, "inter_chunk_latency"),
        e2e_s=_seconds(export, "request_latency"),
        output_tok_s=_value(export, "output_token_throughput"),
        request_s=_value(export, "request_throughput"),
        depth=whole(_value(export, "input_sequence_length")),
        output=_value(export, "output_sequence_length"),
    )


def _checks(export: Document, row: ImportedRow) -> Iterator[Check]:
    gap, tpot, e2e = ((figure or {}).get("mean") for figure in (row.chunk_gap_s, row.tpot_s, row.e2e_s))
    most = number(export.get("effective_concurrency", {}).get("max"))
    yield invariants.completed_gt_0(row.completed)
    yield invariants.in_flight_le_concurrency(most, row.concurrency)
    yield invariants.itl_over_length_is_tpot(gap, _tokens_per_chunk(export), tpot)
    yield invariants.tokens_reconcile({
        "sequences": _value(export, "total_osl"),
        "usage": _value(export, "total_usage_completion_tokens"),
    })  # fmt: skip
    yield invariants.little(row.request_s, e2e, row.concurrency)


def _tokens_per_chunk(export: Document) -> float | None:
    """Output tokens over chunks; a request has one more chunk than gaps."""
    gaps = number(export.get("inter_chunk_latency", {}).get("count"))
    tokens, requests = _value(export, "total_osl"), _value(export, "request_count")
    return tokens / (gaps + requests) if gaps and tokens and requests else None


def _notes(export: Document) -> Iterator[str]:
    if export.get("is_complete") is False:
        yield f"the run is not complete: {export.get('incomplete_reason')}"
    if export.get("was_cancelled"):
        yield "the run was cancelled"
    per_chunk = _tokens_per_chunk(export)
    if per_chunk is not None and per_chunk > 1.05:  # noqa: PLR2004 - a few chunks carry two tokens on any server
        yield f"a chunk carries {per_chunk:.3g} tokens: its chunk latency is no token latency"


def matches_records(rows: Sequence[Document]) -> bool:
    """Records of single requests."""
    return {"metadata", "metrics"} <= rows[0].keys() and "benchmark_phase" in rows[0]["metadata"]


def read_records(rows: Sequence[Document]) -> Imported:
    """One row over all profiled requests of the JSONL."""
    profiled = [row for row in rows if row["metadata"].get("benchmark_phase") == "profiling"]
    good = [row["metrics"] for row in profiled if not row.get("error")]
    found = ImportedRow(
        requests=len(profiled),
        completed=len(good),
        ttft_s=_over(good, "time_to_first_token"),
        tpot_s=_over(good, "inter_token_latency"),
        chunk_gap_s=_over(good, "inter_chunk_latency"),
        e2e_s=_over(good, "request_latency"),
    )
    return Imported("aiperf records", None, None, DEFINITIONS, (found,), (invariants.completed_gt_0(found.completed),))


def _over(records: Sequence[Mapping[str, Any]], name: str) -> Summary | None:
    values: list[float] = []
    for metrics in records:
        if (metric := metrics.get(name)) is not None:
            found = metric["value"] if isinstance(metric["value"], list) else [metric["value"]]
            values += [float(value) * _SECONDS[metric["unit"]] for value in found]
    if not values:
        return None
    return {"mean": sum(values) / len(values), "median": percentile(values, 50), "p99": percentile(values, 99)}


def _seconds(export: Document, name: str) -> Summary | None:
    metric = export.get(name)
    if not isinstance(metric, dict) or metric.get("unit") not in _SECONDS:
        return None
    return summary(metric, _NAMES, _SECONDS[metric["unit"]])


def _value(export: Document, name: str) -> float | None:
    metric = export.get(name)
    return number(metric.get("avg")) if isinstance(metric, dict) else None


def _concurrency(config: Mapping[str, Any]) -> int | None:
    phases = config.get("phases") or []
    stated = [phase.get("concurrency") for phase in phases if phase.get("kind") == "profiling"]
    return whole(stated[0] if stated else config.get("loadgen", {}).get("concurrency"))


def _model(config: Mapping[str, Any]) -> str | None:
    items = config.get("models", {}).get("items") if isinstance(config.get("models"), dict) else None
    if items:
        return str(items[0].get("name"))
    names = config.get("endpoint", {}).get("model_names")
    return str(names[0]) if names else None
