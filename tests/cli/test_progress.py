"""Progress in a pipe: a line a phase, whatever a phase is called."""

from __future__ import annotations

from gearshift.cli.progress import LineProgress


def test_a_phase_that_only_advances_is_told_once_and_names_keep_their_digits() -> None:
    said: list[str] = []
    progress = LineProgress(said.append)
    for phase in ("loading weights 3 %", "loading weights 40%", "waiting for qwen:q8", "waiting for qwen:q4"):
        progress(phase)
    assert said == ["loading weights", "waiting for qwen:q8", "waiting for qwen:q4"]
