"""Decode and prefill against depth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gearshift.report.blocks import Figure
from gearshift.report.charts.lines import lines_of
from gearshift.report.documents import Experiment

_KINDS = frozenset({"ladder", "import"})


def figures(experiments: Sequence[Experiment]) -> Iterator[Figure]:
    """Of ladders, and of imported files that have depths; experiments of one axis only."""
    shown = [experiment for experiment in experiments if experiment.kind in _KINDS]
    for name, title in (("decode_tok_s", "Decode against depth"), ("prefill_tok_s", "Prefill against depth")):
        chart = lines_of(shown, name, title=title, x="depth", x_label="tokens of context", y_label="tok/s, one stream")
        if chart is not None:
            yield chart
