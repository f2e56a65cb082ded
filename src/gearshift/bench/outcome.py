"""What an experiment found: its cells, a verdict where it compares, advice in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gearshift import __version__
from gearshift.bench.cell import CellResult
from gearshift.bench.target import Target
from gearshift.stats import Verdict


@dataclass(frozen=True, slots=True)
class Outcome:
    """The conclusion drawn from an experiment's cells. ``findings`` are further figures by name, JSON values."""

    verdict: Verdict | None = None
    advice: tuple[str, ...] = ()
    findings: Mapping[str, object] | None = None

    def to_json(self) -> dict[str, object]:
        """Keys of the CLI contract; the verdict's change is relative, B against A."""
        verdict = None
        if self.verdict is not None:
            verdict = {
                "result": self.verdict.result,
                "change": self.verdict.change,
                "low": self.verdict.low,
                "high": self.verdict.high,
                "smallest_detectable": self.verdict.smallest_detectable,
                "order_effect": self.verdict.order_effect,
                "pairs": self.verdict.pairs,
            }
        return {"verdict": verdict, "advice": list(self.advice), "findings": dict(self.findings or {})}


@dataclass(frozen=True, slots=True)
class ExperimentResult:
    """An experiment as far as it got. ``interrupted``: the cells are whole, but not all that were planned."""

    name: str
    target: Target
    cells: tuple[CellResult, ...]
    outcome: Outcome
    interrupted: bool = False

    def to_json(self) -> dict[str, object]:
        """The document of ``gearshift bench … --json``."""
        return {
            "experiment": self.name,
            "tool_version": __version__,
            "target": self.target.to_json(),
            "cells": [cell.to_json() for cell in self.cells],
            **self.outcome.to_json(),
            "interrupted": self.interrupted,
        }
