"""The speed that was measured of a variant, as the store has it, to be held against its ceiling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gearshift.domain.variant import Variant
from gearshift.store import Measurements, StoredCell, StoredExperiment

_RESULTS = 200  # the newest; older ones say little of an engine of today


@dataclass(frozen=True, slots=True)
class Measured:
    """A decode rate over ``batch`` sequences at ``depth`` tokens of context, half-way through the answers.

    ``result`` is its number in the store and ``at`` when it began (unix time); None for one that a person gave.
    """

    tok_s: float
    depth: int
    batch: int
    acceptance: tuple[float, ...] | None = None
    engine_version: str | None = None
    result: int | None = None
    at: float | None = None


def measured_decode(store: Measurements, variant: Variant, *, depth: int, batch: int) -> Measured | None:
    """The valid decode rate nearest to ``depth`` with ``batch`` sequences, the newest of equally near ones.

    None where this variant, with the weights it has now, was never measured so. Raises StoreError.
    """
    found = [
        rate
        for listed in store.experiments(limit=_RESULTS)
        if variant.id in _variants(listed)
        for cell in store.experiment(listed.id).cells
        if cell.record.concurrency == batch and (rate := _rate(listed, cell, variant))
    ]
    return min(found, key=lambda rate: abs(rate.depth - depth), default=None)  # the first of equal ones is the newest


def _variants(experiment: StoredExperiment) -> set[object]:
    return {_provenance(target).get("variant") for target in (experiment.record.target, *_targets(experiment).values())}


def _targets(experiment: StoredExperiment) -> Mapping[str, Any]:
    """What each setting was measured on, where one experiment compares several variants."""
    found: Mapping[str, Any] = ((experiment.outcome or {}).get("findings") or {}).get("targets") or {}
    return found


def _provenance(target: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = target.get("provenance") or {}
    return found


def _rate(experiment: StoredExperiment, cell: StoredCell, variant: Variant) -> Measured | None:
    """Of a cell that measured the variant; without an outcome nothing says which of several a setting was."""
    record, targets = cell.record, _targets(experiment)
    target = targets.get(record.setting, experiment.record.target)
    median = (record.figures.get("decode_tok_s") or {}).get("median")
    if not (record.valid and median and record.depth is not None and record.concurrency) or experiment.outcome is None:
        return None
    if not _same(target, variant):
        return None
    accepted = record.figures.get("acceptance") or {}
    return Measured(
        tok_s=median * record.concurrency,
        depth=record.depth + int(record.plan.get("output") or 0) // 2,
        batch=record.concurrency,
        acceptance=tuple(accepted["per_position"]) if accepted.get("per_position") else None,
        engine_version=target.get("engine_version"),
        result=experiment.id,
        at=experiment.record.started,
    )


def _same(target: Mapping[str, Any], variant: Variant) -> bool:
    """Of this variant, and started on weights of this name as far as its command line is known."""
    known = _provenance(target)
    words, weights = known.get("argv"), Path(variant.weights or "").name
    return known.get("variant") == variant.id and (not words or any(weights in word for word in words))
