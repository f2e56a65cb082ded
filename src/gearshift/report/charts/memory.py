"""Where memory is, by the engine's own start-up log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gearshift.domain.units import format_bytes
from gearshift.report.blocks import Figure
from gearshift.report.charts.shapes import Stacks
from gearshift.report.documents import Experiment, name_of

_PARTS = {
    "weights_bytes": "weights",
    "kv_pool_bytes": "KV pool",
    "state_bytes": "recurrent state",
    "compute_bytes": "compute",
    "graph_bytes": "graphs",
}


def figures(experiments: Sequence[Experiment]) -> Iterator[Figure]:
    """One chart with a bar a variant; a variant measured several times counts once."""
    known = {
        name_of(target) or experiment.name: found
        for experiment in experiments
        for target in experiment.targets
        if (found := (target.get("provenance") or {}).get("memory"))
    }
    if not known:
        return
    parts = [(label, tuple(float(bar.get(name) or 0) for bar in known.values())) for name, label in _PARTS.items()]
    shown = tuple((label, values) for label, values in parts if any(values))
    labels = tuple(bar if found.get("weights_bytes") else f"{bar}, weights not told" for bar, found in known.items())
    chart = Stacks("Memory by the engine's log", "bytes", labels, shown)
    bars = []
    for place, label in enumerate(labels):
        held = ", ".join(f"{part} {format_bytes(values[place])}" for part, values in shown if values[place])
        bars.append(f"{label}: {held}")
    yield Figure(chart, f"{chart.title}. {'; '.join(bars)}.")
