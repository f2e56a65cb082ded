"""How close decode came to what the memory's bandwidth allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gearshift.report.blocks import Figure
from gearshift.report.charts.shapes import Bars
from gearshift.report.documents import Experiment
from gearshift.report.words import number, place, share


def figures(experiments: Sequence[Experiment]) -> Iterator[Figure]:
    """A chart an experiment whose findings hold ceilings: rows of setting, concurrency, depth and tok_s."""
    for experiment in experiments:
        known = {
            (row.get("setting", ""), row["concurrency"], row["depth"]): float(row["tok_s"])
            for row in experiment.findings.get("ceiling") or ()
        }
        found = [
            (place(cell), value.value / ceiling, value.value, ceiling)
            for cell in experiment.cells
            if cell.valid
            and (value := cell.figure("decode_tok_s"))
            and (ceiling := known.get((cell.setting, cell.concurrency, cell.depth)))
        ]
        if found:
            groups, series = tuple(row[0] for row in found), ("measured", tuple(row[1] for row in found))
            chart = Bars(f"Share of the ceiling, {experiment.label}", "measured over possible", groups, (series,))
            words = "; ".join(
                f"{name}: {share(part)} ({number(got, 'tok_s')} of {number(most, 'tok_s')} tok/s)"
                for name, part, got, most in found
            )
            yield Figure(chart, f"{chart.title}. {words}.", "The ceiling is bytes that must move over bandwidth.")
