"""Stored results: what may be compared, and the differences."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from gearshift.bench.plan import CellPlan
from gearshift.domain.errors import GearshiftError
from gearshift.store import StoredCell, StoredExperiment

FIGURES = ("ttft_s", "tpot_s", "decode_tok_s", "prefill_tok_s", "output_tok_s")
_MUST_AGREE = {
    "output": "the length of the answers",
    "kind": "the kind of text",
    "dialect": "the endpoint",
    "exact": "whether answers end by themselves",
    "cache": "whether prompts were cold",
    "burst": "whether streams start at once",
    "rate": "closed or open loop",
}  # fmt: skip

_UNSAID = asdict(CellPlan(""))  # what a plan means that was stored before it could say so


class IncomparableError(GearshiftError):
    """Two results measure different things; the message says which."""


@dataclass(frozen=True, slots=True)
class Change:
    """One figure of one pair of cells: relative change of B against A.

    ``apart`` says whether the intervals do not touch; None where one has no interval. It is no test: trials that were
    not interleaved share their boot's and their hour's luck, and `bench ab` is the way to a verdict.
    """

    setting: str
    concurrency: int | None
    depth: int | None
    figure: str
    a: float
    b: float
    change: float
    apart: bool | None


def why_incomparable(a: StoredExperiment, b: StoredExperiment) -> tuple[str, ...]:
    """Every reason why the figures of the two must not stand side by side; empty when they may."""
    reasons = [*_tools(a, b)]
    plans_a, plans_b = ([cell.record.plan for cell in side.cells] for side in (a, b))
    if not (plans_a and plans_b):
        return (*reasons, "one of them has no cells")
    for key, meaning in _MUST_AGREE.items():
        left, right = ({str(plan.get(key, _UNSAID[key])) for plan in plans} for plans in (plans_a, plans_b))
        if left != right:
            reasons.append(f"{meaning} differs: {'/'.join(sorted(left))} against {'/'.join(sorted(right))}")
    if not any(True for _ in _matched(a, b)):
        reasons.append("they have no point in common (setting, concurrency, depth)")
    return tuple(reasons)


def diff(a: StoredExperiment, b: StoredExperiment) -> tuple[Change, ...]:
    """Changes of B against A over their common, valid cells.

    Raises:
        IncomparableError: they measure different things, or every common cell is invalid.
    """
    if reasons := why_incomparable(a, b):
        msg = f"results {a.id} and {b.id} cannot be compared: {'; '.join(reasons)}"
        raise IncomparableError(msg, hint="measure both the same way, or look at them one by one")
    changes = tuple(change for left, right in _matched(a, b) for change in _changes(left, right))
    if not changes:
        msg = f"results {a.id} and {b.id} have no valid cell in common"
        raise IncomparableError(msg, hint="show them to see their flags, and measure again")
    return changes


def experiment_json(experiment: StoredExperiment) -> dict[str, object]:
    """A stored experiment in the form of ``bench … --json``, with number, times and the plan to repeat it by."""
    return {
        **experiment_head(experiment),
        "target": dict(experiment.record.target),
        "plan": dict(experiment.record.plan),
        "cells": [{"valid": cell.record.valid, **cell.record.figures} for cell in experiment.cells],
        **({"verdict": None, "advice": []} | dict(experiment.outcome or {})),
    }


def experiment_head(experiment: StoredExperiment) -> dict[str, object]:
    """What it is, without what it found: the first keys of every document about it."""
    record = experiment.record
    return {
        "id": experiment.id,
        "experiment": record.name,
        "tool": record.tool,
        "tool_version": record.tool_version,
        "model": record.model,
        "started": record.started,
        "ended": experiment.ended,
        "state": experiment.state,
    }


def to_csv(experiments: Sequence[StoredExperiment]) -> str:
    """One line a cell: its point, its medians with their ends, its flags. Empty = unknown."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    ends = [f"{figure}{end}" for figure in FIGURES for end in ("", "_low", "_high")]
    writer.writerow(["id", "experiment", "model", "setting", "concurrency", "depth", "valid", *ends, "flags"])
    for experiment in experiments:
        for cell in experiment.cells:
            writer.writerow(_csv_row(experiment, cell))
    return out.getvalue()


def _csv_row(experiment: StoredExperiment, cell: StoredCell) -> list[object]:
    record, figures = cell.record, cell.record.figures
    values = [_end(figures.get(name), end) for name in FIGURES for end in ("median", "low", "high")]
    head = [experiment.id, experiment.record.name, experiment.record.model]
    point = [record.setting, record.concurrency, record.depth, int(record.valid)]
    return [*head, *point, *values, " ".join(figures.get("flags", []))]


def _tools(a: StoredExperiment, b: StoredExperiment) -> Iterator[str]:
    left, right = a.record, b.record
    if left.name != right.name:
        yield f"the questions differ: {left.name} against {right.name}"
    if left.tool != right.tool:
        yield f"{left.tool} and {right.tool} define their figures differently"


def _matched(a: StoredExperiment, b: StoredExperiment) -> Iterator[tuple[StoredCell, StoredCell]]:
    others = {_point(cell): cell for cell in b.cells}
    for cell in a.cells:
        if (other := others.get(_point(cell))) is not None:
            yield cell, other


def _point(cell: StoredCell) -> tuple[str, int | None, int | None]:
    return cell.record.setting, cell.record.concurrency, cell.record.depth


def _changes(a: StoredCell, b: StoredCell) -> Iterator[Change]:
    if not (a.record.valid and b.record.valid):
        return
    for figure in FIGURES:
        left, right = a.record.figures.get(figure), b.record.figures.get(figure)
        before, after = _same(left, right)
        if before and after is not None:
            yield Change(*_point(a), figure, before, after, after / before - 1, _apart(left, right))


def _same(left: object, right: object) -> tuple[float | None, float | None]:
    """Both medians, else both means: one of each says nothing of a change."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        of = next((of for of in ("median", "mean") if left.get(of) is not None and right.get(of) is not None), None)
        return (left[of], right[of]) if of else (None, None)
    return _end(left, "median"), _end(right, "median")


def _end(figure: object, end: str) -> float | None:
    """Median, low or high of a stored figure; an imported one may be a bare number, or have a mean instead."""
    if isinstance(figure, int | float):
        return float(figure) if end == "median" else None
    if not isinstance(figure, Mapping):
        return None
    found: float | None = figure.get(end, figure.get("mean") if end == "median" else None)
    return found


def _apart(left: object, right: object) -> bool | None:
    (a_low, a_high), (b_low, b_high) = ((_end(side, "low"), _end(side, "high")) for side in (left, right))
    if a_low is None or a_high is None or b_low is None or b_high is None:
        return None
    return a_high < b_low or b_high < a_low
