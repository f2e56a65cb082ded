"""Throughput against concurrency: all streams together, and each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gearshift.report.blocks import Figure
from gearshift.report.charts.lines import lines_of
from gearshift.report.documents import Experiment

_KINDS = frozenset({"concurrency", "import"})


def figures(experiments: Sequence[Experiment]) -> Iterator[Figure]:
    """Of concurrency sweeps, and of imported files that have levels; experiments of one axis only."""
    shown = [experiment for experiment in experiments if experiment.kind in _KINDS]
    for name, title, y_label in (
        ("output_tok_s", "Throughput against concurrency", "tok/s, all streams together"),
        ("decode_tok_s", "Each stream against concurrency", "tok/s, each stream"),
        ("ttft_s", "First token against concurrency", "seconds to the first token"),
    ):
        chart = lines_of(shown, name, title=title, x="concurrency", x_label="streams", y_label=y_label)
        if chart is not None:
            yield chart
