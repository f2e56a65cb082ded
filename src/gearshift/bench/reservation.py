"""What must be said beside a conclusion whose cells were flagged: words go no further than the figures. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from gearshift.bench.cell import CellResult

TOUCHING = ("single_run", "busy_cores", "gpu_throttled", "drift", "first_trial_odd", "outlier_trial", "no_steady_state")


def reserved(words: str, cells: Iterable[CellResult]) -> str:
    """The words about these cells, ended with the flags that touch a figure of theirs; empty words stay empty."""
    found = {flag.name for cell in cells for flag in cell.flags}
    named = ", ".join(name for name in TOUCHING if name in found)
    return f"{words}; with reservation, since cells are flagged {named}" if words and named else words
