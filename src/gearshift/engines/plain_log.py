"""The fold for servers whose log format is not known: it remembers the first line that reads like an error."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Self

from gearshift.domain.startup import StartReport
from gearshift.engines.causes import explain
from gearshift.engines.lines import clean

_ERROR = re.compile(r"^(?:\w+[\w.]*(?:Error|Exception)|(?:cuda |fatal )?error|fatal|panic|docker): ", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PlainLog:
    """Stages are unknown; only the root cause is looked for."""

    report: StartReport = field(default_factory=StartReport)

    def feed(self, line: str) -> Self:
        if self.report.failure is not None or ":" not in line:
            return self
        text = clean(line)
        if not _ERROR.match(text):
            return self
        return replace(self, report=replace(self.report, failure=explain(text, line)))
