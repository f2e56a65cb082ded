"""An imported result: rows in our units under the tool's own definitions, and what does not hold in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from gearshift.bench.counters import Acceptance
from gearshift.domain.errors import GearshiftError
from gearshift.stats.invariants import Check

Summary = Mapping[str, float]  # "mean", "median", "p95", ... as far as the tool states them
Document = Mapping[str, Any]


class ImportFormatError(GearshiftError):
    """A file is no result that we know how to read."""


@dataclass(frozen=True, slots=True)
class ImportedRow:
    """One row of a tool's result. Seconds and tokens; None = the tool does not state it, which is not zero."""

    concurrency: int | None = None
    requests: int | None = None
    completed: int | None = None
    ttft_s: Summary | None = None
    tpot_s: Summary | None = None
    chunk_gap_s: Summary | None = None
    e2e_s: Summary | None = None
    output_tok_s: float | None = None
    request_s: float | None = None  # requests a second
    acceptance: Acceptance | None = None
    prefill_tok_s: float | None = None
    decode_tok_s: float | None = None
    depth: int | None = None
    output: float | None = None  # tokens an answer
    setting: str = ""
    repeats: tuple[float, ...] = ()  # the tool's own repeats of its main figure

    def to_json(self) -> dict[str, object]:
        """Keys of the CLI contract and two more: ``output``, ``setting``."""
        document = asdict(self)
        if self.acceptance is not None:
            document["acceptance"]["per_position"] = list(self.acceptance.per_position)
        return document | {"repeats": list(self.repeats)}


@dataclass(frozen=True, slots=True)
class Imported:
    """One file. ``definitions`` say what the tool means by each figure, so that two tools never share an axis."""

    tool: str
    tool_version: str | None
    model: str | None
    definitions: Mapping[str, str]
    rows: tuple[ImportedRow, ...]
    invariants: tuple[Check, ...]
    notes: tuple[str, ...] = ()
    conditions: Mapping[str, object] = field(default_factory=dict)  # what else the file says of the run

    def to_json(self) -> dict[str, object]:
        """The document of ``gearshift bench import --json`` for one file."""
        return {
            "tool": self.tool,
            "tool_version": self.tool_version,
            "model": self.model,
            "definitions": dict(self.definitions),
            "rows": [row.to_json() for row in self.rows],
            "invariants": [asdict(check) for check in self.invariants],
            "notes": list(self.notes),
            "conditions": dict(self.conditions),
        }


def has_benchmarks(rows: Sequence[Document], key: str) -> bool:
    """Whether it is a report whose ``benchmarks`` hold ``key``: two tools have that name for their list."""
    benchmarks = rows[0].get("benchmarks")
    return isinstance(benchmarks, list) and bool(benchmarks) and key in benchmarks[0]


def merge(checks_by_row: Sequence[Iterable[Check]]) -> tuple[Check, ...]:
    """One check a name over all rows: failed where any row failed, unknown where none could be judged."""
    found: dict[str, list[Check]] = {}
    for number, checks in enumerate(checks_by_row, 1):
        for check in checks:
            detail = f"row {number}: {check.detail}" if len(checks_by_row) > 1 else check.detail
            found.setdefault(check.name, []).append(Check(check.name, check.ok, detail))
    return tuple(_worst(checks) for checks in found.values())


def _worst(checks: Sequence[Check]) -> Check:
    failed = [check for check in checks if check.ok is False]
    if failed:
        return Check(failed[0].name, ok=False, detail="; ".join(check.detail for check in failed))
    return next((check for check in checks if check.ok), checks[0])


def summary(source: Document, names: Mapping[str, str], scale: float = 1.0) -> Summary | None:
    """Numbers of ``source`` under our names, scaled to seconds; None when there is none of them."""
    stated = {ours: number(source.get(theirs)) for theirs, ours in names.items()}
    return {ours: value * scale for ours, value in stated.items() if value is not None} or None


def number(value: object) -> float | None:
    """A JSON number as float; None for anything else, and for one that no float can hold."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def text(value: object) -> str | None:
    """A JSON string that says something; None for anything else."""
    return value if isinstance(value, str) and value else None


def whole(value: object) -> int | None:
    """A JSON number as int; None for anything else."""
    found = number(value)
    return None if found is None else int(found)
