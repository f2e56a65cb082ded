"""What no tool's figures may be, whatever it means by them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from gearshift.bench.importers.imported import ImportedRow, merge
from gearshift.stats import invariants
from gearshift.stats.invariants import Check

_SUMMARIES = ("ttft_s", "tpot_s", "chunk_gap_s", "e2e_s")
_LEVELS = {"min": 0.0, "median": 50.0, "max": 100.0}


def plausible(rows: Sequence[ImportedRow]) -> tuple[Check, ...]:
    """Nothing is below zero, and percentiles do not fall; a check a name over all rows."""
    return merge([(invariants.nothing_negative(dict(_figures(row))), _ascending(row)) for row in rows])


def _figures(row: ImportedRow) -> Iterator[tuple[str, float]]:
    for name, value in asdict(row).items():
        if isinstance(value, Mapping):
            yield from ((f"{name} {of}", part) for of, part in value.items() if isinstance(part, int | float))
        elif isinstance(value, int | float):
            yield name, value


def _ascending(row: ImportedRow) -> Check:
    """The worst of its summaries' checks: one that fails, else one that could be judged."""
    found = [_check(name, getattr(row, name)) for name in _SUMMARIES if getattr(row, name) is not None]
    return min(found, key=lambda check: (check.ok is not False, check.ok is None), default=_check("", {}))


def _check(name: str, summary: Mapping[str, float]) -> Check:
    levels = sorted((level, of) for of in summary if (level := _level(of)) is not None)
    check = invariants.percentiles_ascend({of: summary[of] for _, of in levels})
    return check if check.ok is None else Check(check.name, check.ok, f"{name}: {check.detail}")


def _level(of: str) -> float | None:
    """Where in 0 to 100 a statistic stands; None for a mean or a spread."""
    digits = of.removeprefix("p")
    return float(digits) if digits != of and digits.replace(".", "", 1).isdigit() else _LEVELS.get(of)
