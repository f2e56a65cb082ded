"""What kind of value stands where in a document: checked before anything is read, so that a damaged one is refused.

Every key may be missing or null, and others than these may be there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

Json = Mapping[str, Any]


class _Figure(msgspec.Struct):
    median: float | None = None
    mean: float | None = None
    low: float | None = None
    high: float | None = None


class _Acceptance(msgspec.Struct):
    per_position: list[float] | None = None
    mean_length: float | None = None


class _Needle(msgspec.Struct):
    found: int
    asked: int


class _Gpu(msgspec.Struct):
    used_bytes: int | None = None


class _Card(msgspec.Struct):
    name: str
    bytes: int
    settings: dict[str, float | None] | None = None


class _Hardware(msgspec.Struct):
    gpus: list[_Card] | None = None
    ram_bytes: int | None = None


class _Weights(msgspec.Struct):
    file: str
    bytes: int
    sha256: str | None = None


class _Provenance(msgspec.Struct):
    variant: str | None = None
    argv: list[str] | None = None
    env: dict[str, str] | None = None
    weights: list[_Weights] | None = None
    hardware: _Hardware | None = None
    memory: dict[str, float | None] | None = None
    through: str | None = None
    template_sha256: str | None = None
    gearshift: str | None = None


class _Target(msgspec.Struct):
    url: str | None = None
    model: str | None = None
    engine: str | None = None
    engine_version: str | None = None
    provenance: _Provenance | None = None
    conditions: dict[str, Any] | None = None


class _Verdict(msgspec.Struct):
    result: str
    change: float
    pairs: int
    low: float | None
    high: float | None
    smallest_detectable: float | None = None


class _Check(msgspec.Struct):
    name: str
    ok: bool | None = None
    detail: str | None = None


class _PlannedCell(msgspec.Struct):
    setting: str | None = None
    concurrency: int | None = None
    depth: int | None = None
    output: int | None = None
    requests: int | None = None
    trials: int | None = None
    shared_prefix: int | None = None
    rate: float | None = None
    needles: list[float] | None = None
    extra: dict[str, Any] | None = None


class _Plan(msgspec.Struct):
    cells: list[_PlannedCell] | None = None
    definitions: dict[str, str] | None = None


class _Gain(msgspec.Struct):
    concurrency: int
    ratio: float
    low: float | None = None
    high: float | None = None


class _BreakEven(msgspec.Struct):
    setting: str
    depth: int
    gains: list[_Gain]


class _Goodput(msgspec.Struct):
    rate: float
    share: float
    low: float
    high: float


class _Ceiling(msgspec.Struct, kw_only=True):
    setting: str | None = None
    depth: int | None
    concurrency: int | None
    tok_s: float
    share: float | None = None
    card: str | None = None


class _Findings(msgspec.Struct):
    targets: dict[str, _Target] | None = None
    metric: str | None = None
    goal: dict[str, float | None] | None = None
    goodput: list[_Goodput] | None = None
    break_even: list[_BreakEven] | None = None
    ceiling: list[_Ceiling] | None = None


class _Document(msgspec.Struct):
    model: str | None = None
    tool_version: str | None = None
    target: _Target | None = None
    plan: _Plan | None = None
    findings: _Findings | None = None
    verdict: _Verdict | None = None
    advice: list[str] | None = None
    notes: list[str] | None = None
    definitions: dict[str, str] | None = None
    conditions: dict[str, Any] | None = None
    invariants: list[_Check] | None = None
    started: float | None = None


def check(document: Json, cells: Sequence[Any], figures: Sequence[str]) -> None:
    """Whether values are of their kinds; ``cells`` are the document's, with these figures.

    Raises:
        ValueError: one is not; the message says which and where.
    """
    msgspec.convert(document, _Document)
    msgspec.convert(cells, list[_cell(figures)])  # type: ignore[misc]  # a type made from a list of names


def _cell(figures: Sequence[str]) -> type[msgspec.Struct]:
    count, tail = int | None, dict[str, dict[str, float | None] | None] | None
    kinds: dict[str, Any] = {
        **dict.fromkeys(figures, float | _Figure | None),
        "setting": str | None, "concurrency": count, "depth": count, "trials": count, "valid": bool | None,
        "flags": list[str] | None, "flag_details": dict[str, str] | None, "acceptance": _Acceptance | None,
        "tokens_per_step": float | None, "cache_hit_share": float | None, "needle": _Needle | None, "tail": tail,
        "preemptions": float | None, "kv_use": float | None, "gpus": list[_Gpu] | None,
        "engine": dict[str, float | None] | None,
    }  # fmt: skip
    return msgspec.defstruct("_Cell", [(name, kind, None) for name, kind in kinds.items()])
