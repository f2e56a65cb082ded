"""Is B better than A? Trials in the order A B, B A, A B, ... and a paired verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from gearshift.bench.cell import CellResult
from gearshift.bench.outcome import ExperimentResult, Outcome
from gearshift.bench.plan import CellPlan, ExperimentPlan
from gearshift.bench.retries import Retries
from gearshift.bench.rig import Prepared
from gearshift.bench.runner import Runner
from gearshift.bench.trial import Trial
from gearshift.stats import Pair, Verdict, compare, median
from gearshift.stats.estimate import Estimate
from gearshift.stats.wording import format_change

Metric = Literal["decode_tok_s", "output_tok_s", "ttft_s"]
DEFAULT_PAIRS = 8
_NEAR, _FAR = math.log(1.01), math.log(1.1)  # medians nearer to the pairs raise no question; farther ones always do


def plan(a: CellPlan, b: CellPlan, *, pairs: int = DEFAULT_PAIRS) -> ExperimentPlan:
    """Two cells of ``pairs`` trials each, told apart by their settings.

    Raises:
        ValueError: both settings have one name.
    """
    if a.setting == b.setting:
        msg = f"both sides are called {a.setting!r}"
        raise ValueError(msg)
    cells = tuple(replace(side, experiment="ab", trials=pairs) for side in (a, b))
    return ExperimentPlan("ab", cells, whole=True)


async def run(runner: Runner, experiment: ExperimentPlan, *, metric: Metric = "decode_tok_s") -> ExperimentResult:
    """Both sides warmed up, then pairs in alternating order; an interruption keeps the pairs that are whole.

    As many trials a side, whatever a budget left. When resuming, stored sides are taken where both are of one run.
    """
    experiment = _even(experiment)
    sides = {cell.setting: _Side(runner, cell) for cell in experiment.cells}

    async def work() -> None:
        if await runner.recall(experiment.cells):
            return
        for side in sides.values():
            await side.ready()
        pairs: list[dict[str, Trial]] = []
        retries = Retries(experiment.cells[0].trials)
        try:
            while len(pairs) < experiment.cells[0].trials:
                runner.report_pairs(len(pairs), experiment.cells[0].trials, experiment.cells[0])
                order = list(sides) if len(pairs) % 2 == 0 else list(sides)[::-1]
                pair = {setting: await sides[setting].trial(len(pairs)) for setting in order}
                # Both again where one was late: what makes them a pair is that they ran next to each other.
                if not retries.again(late=any(sides[setting].late(trial) for setting, trial in pair.items())):
                    attempts = retries.kept()
                    pairs.append({setting: replace(trial, attempts=attempts) for setting, trial in pair.items()})
        finally:
            for setting, side in sides.items() if pairs else ():
                side.add([pair[setting] for pair in pairs])

    return await runner.keep(experiment, work, lambda cells: conclude(cells, metric=metric))


def _even(experiment: ExperimentPlan) -> ExperimentPlan:
    least = min(cell.trials for cell in experiment.cells)
    return replace(experiment, cells=tuple(replace(cell, trials=least) for cell in experiment.cells))


class _Side:
    """One side: warmed up again whenever its engine was started anew, because a first run after a start is slow."""

    def __init__(self, runner: Runner, cell: CellPlan) -> None:
        self._runner = runner
        self._cell = cell
        self._boot: int | None = None
        self._prepared: Prepared | None = None

    async def ready(self) -> tuple[Prepared, int]:
        boot = await self._runner.switch.to(self._cell)
        if self._prepared is None or boot != self._boot:
            self._prepared = await self._runner.arm(self._cell.setting).prepare(self._cell)
            self._boot = boot
        return self._prepared, boot

    async def trial(self, number: int) -> Trial:
        prepared, boot = await self.ready()
        return await self._runner.arm(self._cell.setting).trial(prepared, number, boot=boot)

    def late(self, trial: Trial) -> bool:
        return self._runner.arm(self._cell.setting).late(trial)

    def add(self, trials: list[Trial]) -> None:
        if self._prepared is not None:
            self._runner.add(self._runner.arm(self._cell.setting).result(self._prepared, trials))


def conclude(cells: Sequence[CellResult], *, metric: Metric = "decode_tok_s") -> Outcome:
    """The verdict of B against A, with what it does not cover."""
    a, b = cells
    if not (a.valid and b.valid):
        bad = a if not a.valid else b
        return Outcome(advice=(f"no verdict: {bad.plan.setting} is invalid: {bad.flags[0].detail}",))
    figure = _FIGURES[metric]
    pairs = [
        Pair(left, right, a_first=number % 2 == 0)
        for number, (one, other) in enumerate(zip(a.trials, b.trials, strict=True))
        if (left := figure(one)) and (right := figure(other))
    ]
    if not pairs:
        return Outcome(advice=(f"no verdict: {metric} could not be measured",))
    verdict = compare(pairs, higher_is_better=metric != "ttft_s")
    advice = (*_medians_apart(a, b, metric, verdict, pairs), *_caveats(a, b))
    return Outcome(verdict, advice, {"metric": metric, "a": a.plan.setting, "b": b.plan.setting})


def _medians_apart(
    a: CellResult, b: CellResult, metric: Metric, verdict: Verdict, pairs: Sequence[Pair]
) -> Iterator[str]:
    """Why the table's two medians say something else than the pairs, where they do."""
    one, other = (_of_cell(cell, metric) for cell in (a, b))
    if one is None or other is None or not one.median:
        return
    of_medians, low, high = other.median / one.median - 1, verdict.low, verdict.high
    outside = low is not None and high is not None and not low <= of_medians <= high
    apart = abs(math.log((1 + of_medians) / (1 + verdict.change)))
    if apart > (_NEAR if outside else _FAR):
        figures = [pair.a for pair in pairs]
        yield (
            f"the medians of the two sides differ by {format_change(of_medians, digits=2)}, the pairs by "
            f"{format_change(verdict.change, digits=2)}: the box drifted from pair to pair ({a.plan.setting} from "
            f"{min(figures):.3g} to {max(figures):.3g}); the two trials of a pair share most of that, medians do not"
        )


def _of_cell(cell: CellResult, metric: Metric) -> Estimate | None:
    """The figure as the table has it."""
    return {"decode_tok_s": cell.decode_tok_s, "output_tok_s": cell.output_tok_s, "ttft_s": cell.ttft_s}[metric]


def _caveats(a: CellResult, b: CellResult) -> list[str]:
    boots = {trial.boot for trial in (*a.trials, *b.trials)}
    if len(boots) <= 2:  # noqa: PLR2004 - one start a side
        return ["one engine start a side: differences between starts are not in the interval"]
    return []


def _decode(trial: Trial) -> float | None:
    tpots = [sample.tpot_s for sample in trial.good if sample.tpot_s]
    return 1 / median(tpots) if tpots else None


def _output(trial: Trial) -> float | None:
    return trial.output_tokens / trial.wall_s if trial.output_tokens and trial.wall_s else None


def _ttft(trial: Trial) -> float | None:
    found = [sample.ttft_s for sample in trial.good if sample.ttft_s]
    return median(found) if found else None


_FIGURES: Mapping[Metric, Callable[[Trial], float | None]] = {
    "decode_tok_s": _decode,
    "output_tok_s": _output,
    "ttft_s": _ttft,
}
