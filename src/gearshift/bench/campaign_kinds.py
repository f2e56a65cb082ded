"""The experiments that a campaign file may ask for, each by the keys of its verb."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from gearshift.bench.cell import CellResult
from gearshift.bench.experiments import ab, concurrency, ladder, prefix, saturate, speculation
from gearshift.bench.outcome import ExperimentResult, Outcome
from gearshift.bench.plan import CellPlan, ExperimentPlan
from gearshift.bench.runner import Conclude, Runner
from gearshift.domain.units import parse_duration, parse_tokens

SWAP = "swap"
Ask = Callable[[Runner, ExperimentPlan], Awaitable[ExperimentResult]]


@dataclass(frozen=True, slots=True)
class Step:
    """One experiment of a campaign with the conclusion that belongs to it.

    ``names`` are its settings, each with the model, variant or URL that it means, empty where the configuration tells;
    none where one server answers all. ``ask`` is for an experiment whose cells are not simply run in order. A swap has
    no cells: its names are the variants, and whoever has a Gearshift runs it.
    """

    plan: ExperimentPlan
    conclude: Conclude
    names: Mapping[str, str] = field(default_factory=dict)
    ask: Ask | None = None
    trials: int = 3

    async def run(self, runner: Runner) -> ExperimentResult:
        if self.ask is not None:
            return await self.ask(runner, self.plan)
        return await runner.run(self.plan, self.conclude)


@dataclass(frozen=True, slots=True)
class Kind:
    """How an entry becomes a step: from itself, the cell it varies and the server's context. ``keys`` are its own."""

    make: Callable[[Mapping[str, Any], CellPlan, int | None], Step]
    keys: tuple[str, ...]


def _ladder(entry: Mapping[str, Any], base: CellPlan, context: int | None) -> Step:
    depths = _tokens(entry.get("depths", ladder.DEFAULT_DEPTHS))
    return Step(ladder.plan(base, depths, context=context, needles=entry.get("needle", ())), ladder.conclude)


def _concurrency(entry: Mapping[str, Any], base: CellPlan, context: int | None) -> Step:
    del context
    plan = concurrency.plan(_shape(entry, base), _levels(entry["levels"]), requests=entry.get("requests"))
    return Step(plan, concurrency.conclude)


def _speculation(entry: Mapping[str, Any], base: CellPlan, context: int | None) -> Step:
    del context
    asked = entry["tokens"]
    named = asked if isinstance(asked, Mapping) else dict.fromkeys(asked, "")
    names = {_setting(setting): str(name) for setting, name in named.items()}
    depths = _tokens(entry.get("depths", (base.depth,)))
    bases = [replace(base, setting=setting) for setting in names]
    return Step(speculation.plan(bases, _levels(entry["levels"]), depths), speculation.conclude, names)


def _prefix(entry: Mapping[str, Any], base: CellPlan, context: int | None) -> Step:
    del context
    lengths = parse_tokens(entry["prefix"]), parse_tokens(entry["suffix"])
    plan = prefix.plan(base, prefix=lengths[0], suffix=lengths[1], requests=int(entry.get("requests", base.requests)))
    return Step(plan, prefix.conclude)


def _ab(entry: Mapping[str, Any], base: CellPlan, context: int | None) -> Step:
    del context
    metric, sides = _metric(entry.get("metric", "decode_tok_s")), (str(entry["a"]), str(entry["b"]))
    streams = int(entry.get("streams", base.concurrency))
    shape = replace(_shape(entry, base), concurrency=streams, requests=max(base.requests, streams))
    left, right = (replace(shape, setting=side) for side in sides)
    return Step(
        ab.plan(left, right, pairs=base.trials),
        lambda cells: ab.conclude(cells, metric=metric),
        {side: side for side in sides},
        lambda runner, plan: ab.run(runner, plan, metric=metric),
    )


def _saturate(entry: Mapping[str, Any], base: CellPlan, context: int | None) -> Step:
    del context
    tpot = entry.get("tpot")
    goal = saturate.Goal(parse_duration(entry.get("ttft", "2s")), None if tpot is None else parse_duration(tpot))
    plan = saturate.plan(
        _shape(entry, base),
        first_rate=float(entry.get("rate", 0.5)),
        factor=float(entry.get("factor", 1.5)),
        most=int(entry.get("steps", 10)),
    )
    return Step(
        plan,
        lambda cells: saturate.conclude(cells, goal),
        ask=lambda runner, rates: saturate.run(runner, rates, goal),
    )


def _swap(entry: Mapping[str, Any], base: CellPlan, context: int | None) -> Step:
    del context
    names = {str(variant): str(variant) for variant in entry.get("variants", ())}
    return Step(ExperimentPlan(SWAP, ()), _no_cells, names, trials=base.trials)


def _no_cells(cells: Sequence[CellResult]) -> Outcome:
    del cells
    return Outcome()


KINDS: Mapping[str, Kind] = {
    "ladder": Kind(_ladder, ("depths", "needle")),
    "concurrency": Kind(_concurrency, ("levels", "input", "requests")),
    "speculation": Kind(_speculation, ("tokens", "levels", "depths")),
    "prefix": Kind(_prefix, ("prefix", "suffix", "requests")),
    "ab": Kind(_ab, ("a", "b", "metric", "input", "streams")),
    SWAP: Kind(_swap, ("variants",)),
    "saturate": Kind(_saturate, ("ttft", "tpot", "rate", "factor", "steps", "input")),
}


def _shape(entry: Mapping[str, Any], base: CellPlan) -> CellPlan:
    return replace(base, depth=parse_tokens(entry.get("input", base.depth)))


def _levels(values: Sequence[str | int]) -> list[int]:
    return [int(level) for level in values]


def _tokens(values: Sequence[str | int]) -> list[int]:
    return [parse_tokens(value) for value in values]


def _setting(word: object) -> str:
    """A setting as the verb spells it: YAML reads a bare ``off`` as false."""
    return speculation.OFF if word is False else str(word)


def _metric(word: object) -> ab.Metric:
    found: dict[str, ab.Metric] = {name: name for name in get_args(ab.Metric)}
    if str(word) not in found:
        msg = f"{word!r} is no metric, there are {', '.join(found)}"
        raise ValueError(msg)
    return found[str(word)]
