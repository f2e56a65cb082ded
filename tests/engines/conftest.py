"""Folding whole logs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gearshift.domain.startup import LogFold, StartReport
from gearshift.domain.variant import EngineKind
from gearshift.engines import log_fold

Fold = Callable[[EngineKind, str | Path], StartReport]


@pytest.fixture
def fold() -> Fold:
    """The report of a log given as text or as a file."""

    def folded(kind: EngineKind, log: str | Path) -> StartReport:
        state: LogFold = log_fold(kind)
        text = log.read_text(encoding="utf-8", errors="replace") if isinstance(log, Path) else log
        for line in text.split("\n"):
            state = state.feed(line)
        return state.report

    return folded
