"""How much traffic can it take? An open loop at rising rates, and the goodput under a goal of latency."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from gearshift.bench.cell import CellResult
from gearshift.bench.outcome import ExperimentResult, Outcome
from gearshift.bench.plan import CellPlan, ExperimentPlan
from gearshift.bench.reservation import reserved
from gearshift.bench.runner import Runner
from gearshift.bench.sample import Sample
from gearshift.domain.units import format_duration

_GOOD_SHARE = 0.95


@dataclass(frozen=True, slots=True)
class Goal:
    """What makes a request a good one; from its planned time, so that waiting to be sent counts."""

    ttft_s: float
    tpot_s: float | None = None

    @property
    def words(self) -> str:
        """What a good request has."""
        per_token = "" if self.tpot_s is None else f" and at most {format_duration(self.tpot_s)} per token"
        return f"their first token within {format_duration(self.ttft_s)}{per_token}"

    def met_by(self, sample: Sample) -> bool:
        late_s = 0.0 if sample.planned_s is None else max(0.0, sample.started_s - sample.planned_s)
        if not sample.ok or sample.ttft_s is None or sample.ttft_s + late_s > self.ttft_s:
            return False
        return self.tpot_s is None or sample.tpot_s is None or sample.tpot_s <= self.tpot_s


@dataclass(frozen=True, slots=True)
class Goodput:
    """One rate: what was offered and the share that met the goal, with its 95 % interval by Wilson's method."""

    rate: float
    share: float
    low: float
    high: float

    @property
    def words(self) -> str:
        """The share with its interval, which is wide for a few requests."""
        return f"{self.share:.0%}, by its interval {self.low:.0%} to {self.high:.0%},"

    @property
    def holds(self) -> bool:
        return self.share >= _GOOD_SHARE


def plan(base: CellPlan, *, first_rate: float, factor: float = 1.5, most: int = 10) -> ExperimentPlan:
    """At most ``most`` rates, each ``factor`` times the one before.

    The base's requests are those of the first rate; the others have as many more as they are faster, so that requests
    come equally long at each: a few at a high rate are a burst that is over before a queue could grow. Its concurrency
    is only the size of the warm-up: an open loop has no limit of its own.
    """
    cells = (
        replace(
            base,
            experiment="saturate",
            rate=first_rate * faster,
            setting=f"{first_rate * faster:.4g}/s",
            requests=math.ceil(base.requests * faster),
        )
        for faster in (factor**step for step in range(most))
    )
    return ExperimentPlan("saturate", tuple(cells))


async def run(runner: Runner, experiment: ExperimentPlan, goal: Goal) -> ExperimentResult:
    """Raise the rate until too few requests are good."""

    async def work() -> None:
        for index, cell in enumerate(experiment.cells):
            runner.report(index, experiment, cell)
            await runner.measure(cell)
            if not goodput(runner.done[-1], goal).holds:
                return

    return await runner.keep(experiment, work, lambda done: conclude(done, goal))


def goodput(cell: CellResult, goal: Goal) -> Goodput:
    """The share of a cell's requests that met the goal; a failed request did not."""
    samples = [sample for trial in cell.trials for sample in trial.samples]
    good = sum(goal.met_by(sample) for sample in samples)
    low, high = wilson(good, len(samples))
    return Goodput(cell.plan.rate or 0.0, good / len(samples), low, high)


def conclude(cells: Sequence[CellResult], goal: Goal) -> Outcome:
    """The highest rate that held, from valid cells only; the rows have all."""
    rows = [{**asdict(goodput(cell, goal)), "valid": cell.valid} for cell in cells]
    valid = [cell for cell in cells if cell.valid]
    highest = (reserved(words, valid) for words in _highest([goodput(cell, goal) for cell in valid], goal))
    return Outcome(advice=(*highest, *_left_out(cells)), findings={"goodput": rows, "goal": asdict(goal)})


def _left_out(cells: Sequence[CellResult]) -> Iterator[str]:
    if invalid := [cell for cell in cells if not cell.valid]:
        which = ", ".join(cell.plan.setting for cell in invalid)
        yield f"of no account: {which}: {invalid[0].flags[0].detail}"


def _highest(found: Sequence[Goodput], goal: Goal) -> Iterator[str]:
    held = [item for item in found if item.holds]
    if not found:
        return
    if not held:
        words = f"even of {found[0].rate:.3g} requests/s only {found[0].words} had {goal.words}: start lower"
    elif len(held) == len(found):
        words = f"{held[-1].rate:.3g} requests/s still held ({held[-1].words} had {goal.words}): raise the rate"
    else:
        words = f"holds {held[-1].rate:.3g} requests/s ({held[-1].words} had {goal.words})"
    yield words


def wilson(good: int, total: int, *, z: float = 1.959964) -> tuple[float, float]:
    """The 95 % score interval of a share; it behaves at 0 and 1, where the usual one has no width."""
    share, spread = good / total, z * z / total
    centre = (share + spread / 2) / (1 + spread)
    half = z / (1 + spread) * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    return max(0.0, centre - half), min(1.0, centre + half)
