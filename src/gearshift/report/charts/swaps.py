"""What each swap spends its time on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gearshift.report.blocks import Figure
from gearshift.report.charts.shapes import Stacks
from gearshift.report.documents import Cell, Experiment
from gearshift.report.words import number

_PHASES = {
    "drain_s": "drain",
    "sleep_s": "sleep",
    "stop_s": "stop",
    "memory_s": "memory back",
    "load_s": "load",
    "wake_s": "wake",
    "probe_s": "probe",
    "overhead_s": "the rest",
}


def figures(experiments: Sequence[Experiment]) -> Iterator[Figure]:
    """A timeline an experiment of swaps; pairs whose server told no phases are left to the table."""
    for experiment in experiments:
        cells = [cell for cell in experiment.cells if cell.figure("total_s") is not None]
        if experiment.kind == "swap" and cells:
            yield _figure(cells)


def _figure(cells: Sequence[Cell]) -> Figure:
    parts = [(label, tuple(_seconds(cell, name) for cell in cells)) for name, label in _PHASES.items()]
    parts.append(("first token after ready", tuple(_after(cell) for cell in cells)))
    shown = tuple((label, values) for label, values in parts if any(values))
    chart = Stacks("Swaps", "s", tuple(cell.setting for cell in cells), shown)
    words = [f"{cell.setting}: {number(_seconds(cell, 'first_token_s'), 's')} to the first token" for cell in cells]
    return Figure(chart, f"Swaps by phase. {'; '.join(words)}.", "Medians of each phase, one after the other.")


def _after(cell: Cell) -> float:
    """The client's first token beyond the server's phases: queueing, prefill, one step."""
    return max(0.0, _seconds(cell, "first_token_s") - sum(_seconds(cell, name) for name in _PHASES))


def _seconds(cell: Cell, name: str) -> float:
    value = cell.figure(name)
    return 0.0 if value is None else value.value
