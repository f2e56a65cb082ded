"""A campaign: several experiments in one file, within one budget, resumable at the cell.

The file is JSON or what a YAML reader made of one; whoever reads it passes the plain mapping here::

    {"name": "evening", "budget": "2h", "defaults": {"trials": 3, "output": 128},
     "experiments": [{"kind": "ladder", "depths": ["1k", "8k"], "needle": [0.1, 0.9]},
                     {"kind": "concurrency", "levels": [1, 4, 8], "input": 512}]}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from gearshift.bench.budget import Fitted, Pace, fit
from gearshift.bench.experiments import concurrency, ladder, prefix
from gearshift.bench.outcome import ExperimentResult
from gearshift.bench.plan import CellPlan, ExperimentPlan
from gearshift.bench.runner import Conclude, Runner
from gearshift.domain.errors import ConfigError, Problem
from gearshift.domain.units import parse_duration, parse_tokens


@dataclass(frozen=True, slots=True)
class Campaign:
    """What the file says, checked."""

    name: str
    budget_s: float | None
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One experiment of a campaign with the conclusion that belongs to it."""

    plan: ExperimentPlan
    conclude: Conclude


def read_campaign(document: Mapping[str, Any], *, context: int | None) -> Campaign:
    """The campaign in ``document``; ladders end at ``context``.

    Raises:
        ConfigError: every problem found, each with its place.
    """
    problems: list[Problem] = []
    base = _base(document.get("defaults", {}), "defaults", CellPlan(""), problems)
    steps = []
    for index, entry in enumerate(document.get("experiments", ())):
        step = _step(entry, f"experiments[{index}]", base, context, problems)
        if step is not None:
            steps.append(step)
    budget = document.get("budget")
    if not steps and not problems:
        problems.append(Problem("no experiment is named", "experiments", hint=f"kinds are {', '.join(_KINDS)}"))
    if problems:
        raise ConfigError(tuple(problems))
    budget_s = None if budget is None else parse_duration(budget)
    return Campaign(str(document.get("name", "campaign")), budget_s, tuple(steps))


def fit_campaign(campaign: Campaign, pace: Pace) -> tuple[Campaign, tuple[Fitted, ...]]:
    """The campaign cut to its budget, which its experiments share in proportion to what they would cost."""
    if campaign.budget_s is None:
        return campaign, ()
    costs = [sum(pace.cost_s(cell) for cell in step.plan.cells) for step in campaign.steps]
    fitted = tuple(
        fit(step.plan, pace, campaign.budget_s * cost / sum(costs))
        for step, cost in zip(campaign.steps, costs, strict=True)
    )
    steps = tuple(replace(step, plan=found.plan) for step, found in zip(campaign.steps, fitted, strict=True))
    return replace(campaign, steps=steps), fitted


async def run(campaign: Campaign, runner: Runner) -> tuple[ExperimentResult, ...]:
    """Every experiment in turn; a runner that resumes takes what is stored already."""
    return tuple([await runner.run(step.plan, step.conclude) for step in campaign.steps])


def _step(
    entry: Mapping[str, Any], path: str, base: CellPlan, context: int | None, problems: list[Problem]
) -> Step | None:
    kind = str(entry.get("kind"))
    if kind not in _KINDS:
        problems.append(Problem(f"{kind!r} is no experiment", f"{path}.kind", hint=f"kinds are {', '.join(_KINDS)}"))
        return None
    own = {key: value for key, value in entry.items() if key not in {"kind", *_KEYS[kind]}}
    cell = _base(own, path, base, problems)
    try:
        return _KINDS[kind](entry, cell, context)
    except (KeyError, TypeError, ValueError) as error:
        problems.append(Problem(f"cannot be planned: {error}", path, hint=f"it takes {', '.join(_KEYS[kind])}"))
        return None


def _ladder(entry: Mapping[str, Any], base: CellPlan, context: int | None) -> Step:
    depths = _tokens(entry.get("depths", ladder.DEFAULT_DEPTHS))
    return Step(ladder.plan(base, depths, context=context, needles=entry.get("needle", ())), ladder.conclude)


def _concurrency(entry: Mapping[str, Any], base: CellPlan, context: int | None) -> Step:
    del context
    shape = replace(base, depth=parse_tokens(entry.get("input", base.depth)))
    plan = concurrency.plan(shape, [int(level) for level in entry["levels"]], requests=entry.get("requests"))
    return Step(plan, concurrency.conclude)


def _prefix(entry: Mapping[str, Any], base: CellPlan, context: int | None) -> Step:
    del context
    lengths = parse_tokens(entry["prefix"]), parse_tokens(entry["suffix"])
    plan = prefix.plan(base, prefix=lengths[0], suffix=lengths[1], requests=int(entry.get("requests", base.requests)))
    return Step(plan, prefix.conclude)


_KINDS: Mapping[str, Callable[[Mapping[str, Any], CellPlan, int | None], Step]] = {
    "ladder": _ladder,
    "concurrency": _concurrency,
    "prefix": _prefix,
}
_KEYS: Mapping[str, tuple[str, ...]] = {
    "ladder": ("depths", "needle"),
    "concurrency": ("levels", "input", "requests"),
    "prefix": ("prefix", "suffix", "requests"),
}
_CELL_KEYS = {field.name for field in fields(CellPlan)} - {"experiment", "setting", "needles", "shared_prefix"}


def _base(source: Mapping[str, Any], path: str, base: CellPlan, problems: list[Problem]) -> CellPlan:
    known = {key: value for key, value in source.items() if key in _CELL_KEYS}
    problems.extend(
        Problem("no such setting", f"{path}.{key}", hint=f"cells have {', '.join(sorted(_CELL_KEYS))}")
        for key in source.keys() - known.keys()
    )
    return replace(base, **known)


def _tokens(values: Sequence[str | int]) -> list[int]:
    return [parse_tokens(value) for value in values]
