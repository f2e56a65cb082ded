"""``llama-bench -o json|jsonl`` and ``llama-batched-bench`` JSONL: in-process figures, no server and no TTFT.

``flash_attn`` is a bool in old builds and -1, 0 or 1 in new ones; ``test_time`` is the start; times are nanoseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gearshift.bench.importers.imported import Document, Imported, ImportedRow, merge, number, text, whole
from gearshift.stats import first_is_odd, invariants, median
from gearshift.stats.invariants import Check

DEFINITIONS = {
    "prefill_tok_s": "prompt tokens over the time of one batch evaluation, in process, median of repeats",
    "decode_tok_s": "generated tokens over their time, in process, from an empty answer at the stated depth",
    "tpot_s": "1 / decode_tok_s",
}
_BATCHED = {
    "prefill_tok_s": "prompt tokens of all sequences over the prefill time, in process",
    "output_tok_s": "generated tokens of all sequences over the decode time, prefill excluded",
    "decode_tok_s": "output_tok_s over the number of sequences",
}
_CONDITIONS = ("build_number", "gpu_info", "backends", "type_k", "type_v", "flash_attn", "n_batch", "n_ubatch",
               "n_gpu_layers", "split_mode", "n_threads", "test_time")  # fmt: skip


def matches(rows: Sequence[Document]) -> bool:
    """Rows of llama-bench."""
    return {"n_prompt", "n_gen", "avg_ts"} <= rows[0].keys()


def read(rows: Sequence[Document]) -> Imported:
    """One row a test; several repeats inside each."""
    found = tuple(_row(source) for source in rows)
    first = rows[0]
    return Imported(
        tool="llama-bench",
        tool_version=f"b{first['build_number']}" if "build_number" in first else None,
        model=text(first.get("model_type")),
        definitions=DEFINITIONS,
        rows=found,
        invariants=merge([tuple(_checks(source, row)) for source, row in zip(rows, found, strict=True)]),
        notes=tuple(_notes(found)),
        conditions={key: first.get(key) for key in _CONDITIONS},
    )


def _row(source: Document) -> ImportedRow:
    repeats = tuple(float(rate) for rate in source.get("samples_ts") or [source["avg_ts"]])
    rate = median(repeats)
    decodes = bool(source["n_gen"]) and not source["n_prompt"]
    prefills = bool(source["n_prompt"]) and not source["n_gen"]
    return ImportedRow(
        concurrency=1,
        requests=len(repeats),
        completed=len(repeats),
        tpot_s={"median": 1 / rate} if decodes and rate else None,
        prefill_tok_s=rate if prefills else None,
        decode_tok_s=rate if decodes else None,
        # A mixed test (-pg) states one rate over both phases, which is neither.
        depth=whole(source.get("n_depth")) if decodes else _sum(source.get("n_depth"), source.get("n_prompt")),
        output=number(source["n_gen"]),
        setting="" if decodes or prefills else "prompt and generation in one rate",
        repeats=repeats,
    )


def _checks(source: Document, row: ImportedRow) -> Iterator[Check]:
    yield invariants.completed_gt_0(row.completed)
    nanoseconds, rates = source.get("samples_ns"), source.get("samples_ts")
    if nanoseconds and rates:
        tokens = source["n_gen"] + source["n_prompt"]
        yield invariants.tokens_reconcile({"stated": float(tokens), "rate x time": rates[0] * nanoseconds[0] / 1e9})


def _notes(rows: Sequence[ImportedRow]) -> Iterator[str]:
    repeated = [row for row in rows if len(row.repeats) > 1]
    if repeated and all(row.repeats[0] == min(row.repeats) for row in repeated):
        yield "the first repeat of every row is the slowest: it carries a warm-up"
    for number_, row in enumerate(rows, 1):
        if first_is_odd(row.repeats):
            yield f"row {number_}: the first repeat ({row.repeats[0]:.4g} tok/s) lies apart from the rest"


def matches_batched(rows: Sequence[Document]) -> bool:
    """Rows of llama-batched-bench."""
    return {"pp", "tg", "pl", "speed_pp", "speed_tg"} <= rows[0].keys()


def read_batched(rows: Sequence[Document]) -> Imported:
    """One row a batch size."""
    found = tuple(
        ImportedRow(
            concurrency=whole(source["pl"]),
            output_tok_s=number(source["speed_tg"]),
            prefill_tok_s=number(source["speed_pp"]),
            decode_tok_s=source["speed_tg"] / source["pl"] if source["pl"] else None,
            depth=whole(source["pp"]),
            output=number(source["tg"]),
        )
        for source in rows
    )
    return Imported("llama-batched-bench", None, None, _BATCHED, found, ())


def _sum(*values: object) -> int | None:
    known = [found for value in values if (found := whole(value)) is not None]
    return sum(known) if known else None
