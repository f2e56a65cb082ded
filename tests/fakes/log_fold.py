"""A log parser for tests: stages are "load_..." lines, a cause is what follows "error: "."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

from gearshift.domain.errors import Failure
from gearshift.domain.startup import StartReport


@dataclass(frozen=True)
class MarkedLog:
    """Implements `domain.startup.LogFold`: the first "error: " line is the root cause, later ones are noise."""

    report: StartReport = field(default_factory=StartReport)

    def feed(self, line: str) -> Self:
        if line.startswith("error: ") and not self.report.failure:
            failure = Failure(line.removeprefix("error: "), line=line, fix="do better")
            return replace(self, report=replace(self.report, failure=failure))
        if line.startswith("load_"):
            return replace(self, report=replace(self.report, stage=line.split(":", maxsplit=1)[0]))
        return self


@dataclass(frozen=True)
class FaultyLog:
    """A parser with a fault of its own."""

    report: StartReport = field(default_factory=StartReport)

    def feed(self, line: str) -> Self:
        raise ValueError(line)
