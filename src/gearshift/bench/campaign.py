"""A campaign: several experiments in one file, within one budget, resumable at the cell.

The file is JSON or what a YAML reader made of one; whoever reads it passes the plain mapping here::

    {"name": "evening", "budget": "2h", "defaults": {"repeats": 3, "output": 128},
     "experiments": [{"kind": "ladder", "depths": ["1k", "8k"], "needle": [0.1, 0.9]},
                     {"kind": "ab", "a": "qwen:plain", "b": "qwen:mtp2", "repeats": 8, "text": "code"}]}

Settings of cells are called as the verbs' options are, or as a cell's plan has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, get_type_hints

import msgspec

from gearshift.bench.budget import Fitted, Pace, fit
from gearshift.bench.campaign_kinds import KINDS, Step
from gearshift.bench.outcome import ExperimentResult
from gearshift.bench.plan import CellPlan
from gearshift.bench.runner import Runner
from gearshift.domain.errors import ConfigError, Problem
from gearshift.domain.units import parse_duration, parse_tokens


@dataclass(frozen=True, slots=True)
class Campaign:
    """What the file says, checked."""

    name: str
    budget_s: float | None
    steps: tuple[Step, ...]

    @property
    def swap_budget_s(self) -> float | None:
        """Seconds that each step of swaps may take; None = no limit."""
        return None if self.budget_s is None else self.budget_s / len(self.steps)


def read_campaign(document: Mapping[str, Any], *, context: int | None) -> Campaign:
    """The campaign in ``document``; ladders end at ``context``.

    Raises:
        ConfigError: every problem found, each with its place.
    """
    problems: list[Problem] = []
    base = _base(document.get("defaults", {}), "defaults", CellPlan(""), problems)
    steps = []
    for index, entry in enumerate(_entries(document, problems)):
        step = _step(entry, f"experiments[{index}]", base, context, problems)
        if step is not None:
            steps.append(step)
    if not steps and not problems:
        problems.append(Problem("no experiment is named", "experiments", hint=f"kinds are {', '.join(KINDS)}"))
    budget_s = _budget(document.get("budget"), problems)
    if problems:
        raise ConfigError(tuple(problems))
    return Campaign(str(document.get("name", "campaign")), budget_s, tuple(steps))


def fit_campaign(campaign: Campaign, pace: Pace) -> tuple[Campaign, tuple[Fitted, ...]]:
    """The campaign cut to its budget, which its experiments share in proportion to what they would cost.

    What a swap costs is known only by measuring one: each such step has an equal share (`Campaign.swap_budget_s`) and
    leaves out the pairs that do not fit while it runs.
    """
    if campaign.budget_s is None:
        return campaign, ()
    costs = [sum(pace.cost_s(cell) for cell in step.plan.cells) for step in campaign.steps]
    whole = sum(costs) or 1.0
    swaps = sum(not step.plan.cells for step in campaign.steps)
    share_s = campaign.budget_s * (1 - swaps / len(campaign.steps))
    fitted = tuple(
        fit(step.plan, pace, share_s * cost / whole) for step, cost in zip(campaign.steps, costs, strict=True)
    )
    steps = tuple(replace(step, plan=found.plan) for step, found in zip(campaign.steps, fitted, strict=True))
    return replace(campaign, steps=steps), fitted


async def run(campaign: Campaign, runner: Runner) -> tuple[ExperimentResult, ...]:
    """Every experiment in turn on one runner; one that resumes takes what is stored already."""
    return tuple([await step.run(runner) for step in campaign.steps])


def _entries(document: Mapping[str, Any], problems: list[Problem]) -> list[Any]:
    found = document.get("experiments", [])
    if isinstance(found, list | tuple):
        return list(found)
    problems.append(Problem(f"{found!r} is no list", "experiments", hint="give each experiment with its kind"))
    return []


def _budget(value: object, problems: list[Problem]) -> float | None:
    try:
        return None if value is None else parse_duration(str(value))
    except ValueError as error:
        problems.append(Problem(str(error), "budget", hint="write a duration such as 20m"))
        return None


def _step(entry: object, path: str, base: CellPlan, context: int | None, problems: list[Problem]) -> Step | None:
    if not isinstance(entry, Mapping):
        problems.append(Problem(f"{entry!r} is no mapping", path, hint="write for example {kind: ladder}"))
        return None
    name = str(entry.get("kind"))
    kind = KINDS.get(name)
    if kind is None:
        problems.append(Problem(f"{name!r} is no experiment", f"{path}.kind", hint=f"kinds are {', '.join(KINDS)}"))
        return None
    own = {key: value for key, value in entry.items() if key not in {"kind", *kind.keys}}
    cell = _base(own, path, base, problems)
    try:
        return kind.make(entry, cell, context)
    except (KeyError, TypeError, ValueError) as error:
        said = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        problems.append(Problem(f"cannot be planned: {said}", path, hint=f"it takes {', '.join(kind.keys)}"))
        return None


_CELL_KEYS = get_type_hints(CellPlan).keys() - {"experiment", "setting", "needles", "shared_prefix"}
_CELL_TYPES = {key: kind for key, kind in get_type_hints(CellPlan).items() if key in _CELL_KEYS}
_AS_VERBS_SAY = {"repeats": "trials", "text": "kind", "api": "dialect", "prompts": "file", "natural_end": "exact"}
_LENGTHS = frozenset({"depth", "output"})  # tokens, as people write them
_ABOVE_ZERO = frozenset({"concurrency", "requests", "trials", *_LENGTHS})


def _base(source: object, path: str, base: CellPlan, problems: list[Problem]) -> CellPlan:
    """``base`` with the settings of a mapping; each that is unknown or does not fit is a problem."""
    if not isinstance(source, Mapping):
        problems.append(Problem(f"{source!r} is no mapping", path, hint="write for example {trials: 3}"))
        return base
    known: dict[str, Any] = {}
    for key, value in source.items():
        try:
            known |= _setting(key, value)
        except KeyError:
            hint = f"cells have {', '.join(sorted({*_CELL_KEYS, *_AS_VERBS_SAY}))}"
            problems.append(Problem("no such setting", f"{path}.{key}", hint=hint))
        except (ValueError, msgspec.ValidationError) as error:
            problems.append(Problem(f"{value!r} does not fit: {error}", f"{path}.{key}"))
    return replace(base, **known)


def _setting(key: str, value: object) -> dict[str, Any]:
    """What a key says of a cell, under our name or under that of the verbs' option. Raises as `_value` does."""
    found = {name: _value(name, value) for name in [_AS_VERBS_SAY.get(key, key)]}
    if key == "natural_end":
        return {"exact": not found["exact"]}
    return {**found, "kind": "file"} if key == "prompts" else found


def _value(key: str, value: object) -> Any:
    """Raises KeyError for what cells do not have, ValueError or ValidationError for what does not fit."""
    if key in _LENGTHS and isinstance(value, str):
        value = parse_tokens(value)
    found = msgspec.convert(value, _CELL_TYPES[key])
    if key in _ABOVE_ZERO and found < 1:
        msg = "it must be above zero"
        raise ValueError(msg)
    return found
