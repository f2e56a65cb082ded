"""Result documents as values: those of ``bench … --json``, of ``results export`` and of ``bench import --json``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gearshift.domain.errors import GearshiftError
from gearshift.domain.redaction import redacted
from gearshift.report.shape import check

OURS = "gearshift"
FIGURES = (
    "ttft_s", "ttfo_s", "tpot_s", "chunk_gap_s", "e2e_s", "decode_tok_s", "prefill_tok_s", "output_tok_s",
    "first_token_s", "drain_s", "sleep_s", "stop_s", "memory_s", "load_s", "wake_s", "probe_s", "overhead_s", "total_s",
    "freed_bytes",
)  # fmt: skip
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Value:
    """One figure. ``of`` says what it is of the requests: "median", or "mean" where the tool states no median."""

    value: float
    low: float | None = None
    high: float | None = None
    of: str = "median"


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of an experiment. None = unknown."""

    setting: str
    concurrency: int | None
    depth: int | None
    trials: int | None
    figures: Mapping[str, Value]
    valid: bool
    flags: Mapping[str, str]  # name -> detail
    acceptance: tuple[float, ...] = ()
    mean_length: float | None = None
    tokens_per_step: float | None = None
    cache_hit_share: float | None = None
    needle: tuple[int, int] | None = None  # found, asked
    tail: Json = field(default_factory=dict)  # p90, p99 and the worst of its requests, by figure
    preemptions: float | None = None
    kv_use: float | None = None  # highest share of the KV pool
    vram: tuple[int, ...] = ()  # most bytes in use, a GPU
    engine: Json = field(default_factory=dict)  # its own means and ours over the same requests

    def figure(self, name: str) -> Value | None:
        return self.figures.get(name)


@dataclass(frozen=True, slots=True)
class Experiment:
    """One question's cells with where they come from. ``definitions`` are another tool's own."""

    kind: str
    tool: str
    tool_version: str | None
    model: str | None
    target: Json
    cells: tuple[Cell, ...]
    verdict: Json | None = None
    advice: tuple[str, ...] = ()
    findings: Json = field(default_factory=dict)
    definitions: Mapping[str, str] = field(default_factory=dict)
    invariants: tuple[Json, ...] = ()
    notes: tuple[str, ...] = ()
    plan: tuple[Json, ...] = ()  # the cells as they were planned
    interrupted: bool = False
    started: float | None = None  # unix time
    apart: str = ""  # what sets it apart from others of its kind and name in one report

    @property
    def axis(self) -> str:
        """Figures share an axis only where this is equal: one tool, one set of definitions."""
        return json.dumps([self.tool, dict(self.definitions)], sort_keys=True)

    @property
    def provenance(self) -> Json:
        return self.target.get("provenance") or {}

    @property
    def targets(self) -> tuple[Json, ...]:
        """Every server that was measured: one, or one a setting."""
        by_setting = self.findings.get("targets") or {}
        return tuple(by_setting.values()) or (self.target,)

    @property
    def name(self) -> str:
        """What was measured, in a word: the variant where it was one, else the model."""
        if len(self.targets) > 1:
            return str(self.model or self.kind)
        return name_of(self.target) or str(self.model or self.target.get("file") or self.tool)

    @property
    def label(self) -> str:
        """Its name, with what sets it apart."""
        return ", ".join(part for part in (self.name, self.apart) if part)


def name_of(target: Json) -> str:
    """The variant that a target is; empty where it is no Gearshift's."""
    return str((target.get("provenance") or {}).get("variant") or "")


def read_documents(documents: Sequence[Any]) -> tuple[Experiment, ...]:
    """Every experiment, redacted; a list among the documents counts as its members.

    Raises:
        GearshiftError: a document is no result.
    """
    return tuple(_experiment(redacted(document)) for document in _flat(documents))


def _flat(documents: Sequence[Any]) -> Iterator[Json]:
    for document in documents:
        if isinstance(document, Mapping):
            yield document
        elif isinstance(document, list):
            yield from _flat(document)
        else:
            raise _no_result(f"a JSON {type(document).__name__}")


def _experiment(document: Json) -> Experiment:
    cells = document.get("cells", document.get("rows"))
    if not isinstance(cells, list):
        raise _no_result(f"an object with {', '.join(sorted(document)[:6]) or 'nothing'}")
    try:
        check(document, cells, FIGURES)
        return _imported(document) if "rows" in document else _measured(document)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _no_result(f"a damaged one ({type(error).__name__}: {error})") from error


def _no_result(found: str) -> GearshiftError:
    hint = "give what `gearshift bench ... --json` or `gearshift results export` printed"
    return GearshiftError(f"this is no result: {found}", hint=hint)


def _measured(document: Json) -> Experiment:
    target = document.get("target") or {}
    return Experiment(
        kind=str(document["experiment"]),
        tool=str(document.get("tool") or OURS),
        tool_version=document.get("tool_version") or (target.get("provenance") or {}).get("gearshift"),
        model=document.get("model") or target.get("model"),
        target=target,
        cells=tuple(_cell({**cell, **_open_loop(document)}) for cell in document["cells"]),
        verdict=document.get("verdict"),
        advice=tuple(document.get("advice") or ()),
        findings=document.get("findings") or {},
        definitions=(document.get("plan") or {}).get("definitions") or {},
        invariants=tuple(document.get("invariants") or ()),
        notes=tuple(document.get("notes") or ()),
        plan=tuple((document.get("plan") or {}).get("cells") or ()),
        interrupted=bool(document.get("interrupted") or document.get("state") == "interrupted"),
        started=document.get("started"),
    )


def _open_loop(document: Json) -> Json:
    """What is not so of an open loop's cells: they have a rate and no limit of streams."""
    return {"concurrency": None} if document["experiment"] == "saturate" else {}


def _imported(document: Json) -> Experiment:
    failing = any(check.get("ok") is False for check in document.get("invariants") or ())
    return Experiment(
        kind="import",
        tool=str(document["tool"]),
        tool_version=document.get("tool_version"),
        model=document.get("model"),
        target={"conditions": document.get("conditions") or {}},
        cells=tuple(_cell({"valid": not failing, **row}) for row in document["rows"]),
        definitions=document.get("definitions") or {},
        invariants=tuple(document.get("invariants") or ()),
        notes=tuple(document.get("notes") or ()),
    )


def _cell(cell: Json) -> Cell:
    acceptance, needle = cell.get("acceptance") or {}, cell.get("needle")
    details = cell.get("flag_details") or {}
    return Cell(
        setting=str(cell.get("setting") or ""),
        concurrency=cell.get("concurrency"),
        depth=cell.get("depth"),
        trials=cell.get("trials"),
        figures={name: value for name in FIGURES if (value := _value(cell.get(name))) is not None},
        valid=bool(cell.get("valid", True)),
        flags={name: details.get(name, "") for name in cell.get("flags") or ()},
        acceptance=tuple(acceptance.get("per_position") or ()),
        mean_length=acceptance.get("mean_length"),
        tokens_per_step=cell.get("tokens_per_step"),
        cache_hit_share=cell.get("cache_hit_share"),
        needle=(needle["found"], needle["asked"]) if needle else None,
        tail=cell.get("tail") or {},
        preemptions=cell.get("preemptions"),
        kv_use=cell.get("kv_use"),
        vram=tuple(used for gpu in cell.get("gpus") or () if (used := gpu.get("used_bytes")) is not None),
        engine=cell.get("engine") or {},
    )


def _value(found: Any) -> Value | None:
    if isinstance(found, int | float):
        return Value(float(found))
    if not isinstance(found, Mapping):
        return None
    if found.get("median") is not None:
        return Value(found["median"], found.get("low"), found.get("high"))
    return None if found.get("mean") is None else Value(found["mean"], of="mean")
