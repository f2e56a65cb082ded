"""Is B better than A? Trials in the order A B, B A, A B, ... and a paired verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from gearshift.bench.cell import CellResult
from gearshift.bench.outcome import ExperimentResult, Outcome
from gearshift.bench.plan import CellPlan, ExperimentPlan
from gearshift.bench.rig import Prepared
from gearshift.bench.runner import Runner
from gearshift.bench.trial import Trial
from gearshift.stats import Pair, compare, median

Metric = Literal["decode_tok_s", "output_tok_s", "ttft_s"]
DEFAULT_PAIRS = 8


def plan(a: CellPlan, b: CellPlan, *, pairs: int = DEFAULT_PAIRS) -> ExperimentPlan:
    """Two cells of ``pairs`` trials each, told apart by their settings.

    Raises:
        ValueError: both settings have one name.
    """
    if a.setting == b.setting:
        msg = f"both sides are called {a.setting!r}"
        raise ValueError(msg)
    cells = tuple(replace(side, experiment="ab", trials=pairs) for side in (a, b))
    return ExperimentPlan("ab", cells)


async def run(runner: Runner, experiment: ExperimentPlan, *, metric: Metric = "decode_tok_s") -> ExperimentResult:
    """Both sides warmed up, then pairs in alternating order; an interruption keeps the pairs that are whole."""

    async def work() -> None:
        prepared = {cell.setting: await _prepare(runner, cell) for cell in experiment.cells}
        pairs: list[dict[str, Trial]] = []
        try:
            for number in range(experiment.cells[0].trials):
                runner.report(0, experiment, experiment.cells[0])
                order = experiment.cells if number % 2 == 0 else experiment.cells[::-1]
                pairs.append({cell.setting: await _trial(runner, prepared[cell.setting], number) for cell in order})
        finally:
            for setting, side in prepared.items() if pairs else ():
                runner.add(runner.arm(setting).result(side, [pair[setting] for pair in pairs]))

    return await runner.keep(experiment, work, lambda cells: conclude(cells, metric=metric))


async def _trial(runner: Runner, side: Prepared, number: int) -> Trial:
    boot = await runner.switch.to(side.plan)
    return await runner.arm(side.plan.setting).trial(side, number, boot=boot)


async def _prepare(runner: Runner, cell: CellPlan) -> Prepared:
    await runner.switch.to(cell)
    return await runner.arm(cell.setting).prepare(cell)


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
    return Outcome(verdict, tuple(_caveats(a, b)), {"metric": metric, "a": a.plan.setting, "b": b.plan.setting})


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
