"""Servers whose log format is not known: the first line that reads like an error is the root cause."""

from __future__ import annotations

import pytest

from gearshift.engines import log_fold


@pytest.mark.parametrize(
    "line",
    [
        "error: no such model",
        "CUDA error: out of memory",
        "fatal: cannot open the weights",
        "fatal error: cannot open the weights",
        "docker: Error response from daemon: No such image",
        "torch.OutOfMemoryError: CUDA out of memory",
    ],
)
def test_the_first_error_is_the_cause_and_later_ones_are_noise(line: str) -> None:
    fold = log_fold("command")
    for text in ("loading: 3 files", line, "error: cleaning up"):
        fold = fold.feed(text)
    assert fold.report.failure is not None
    assert (fold.report.failure.cause, fold.report.failure.line) == (line, line)


@pytest.mark.parametrize("line", ["errors: 0", "no error: all is well so far", "INFO: error handling is on"])
def test_a_line_that_only_speaks_of_errors_is_none(line: str) -> None:
    assert log_fold("command").feed(line).report.failure is None
