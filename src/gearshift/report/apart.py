"""Tells experiments of one name apart by what was asked of them: two tables headed alike say nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from gearshift.report.documents import Experiment
from gearshift.report.words import tokens

_FORMS: Mapping[str, Callable[[Any], str]] = {
    "output": lambda value: f"answers of {tokens(value)} tokens",
    "kind": lambda value: "prompts of a file" if value == "file" else f"text: {value}",
    "file": str,
    "dialect": lambda value: f"the {value} endpoint",
    "exact": lambda value: "answers of equal length" if value else "answers that end by themselves",
    "burst": lambda value: "started at once" if value else "started one after the other",
    "extra": lambda value: f"with {value}" if value else "with nothing further",
}  # what a plan says of all of its cells


def told_apart(experiments: Sequence[Experiment]) -> list[Experiment]:
    """The same, each that shares its question, name and tool with others knowing what sets it apart."""
    alike: dict[tuple[str, str, str], list[Experiment]] = {}
    for experiment in experiments:
        alike.setdefault((experiment.kind, experiment.name, experiment.axis), []).append(experiment)
    apart = {id(one): _apart(one, group) for group in alike.values() if len(group) > 1 for one in group}
    return [replace(experiment, apart=apart.get(id(experiment), "")) for experiment in experiments]


def _apart(experiment: Experiment, group: Sequence[Experiment]) -> str:
    """What its plan says that not all of the group's do; where another has the same plan, when it was asked."""
    said = dict(_asked(experiment))
    others = [dict(_asked(other)) for other in group]
    differing = [words for key, words in said.items() if any(other.get(key) != words for other in others)]
    if others.count(said) > 1 and experiment.started is not None:
        differing.append(datetime.fromtimestamp(experiment.started, UTC).strftime("%Y-%m-%d %H:%M:%S UTC"))
    return ", ".join(differing)


def _asked(experiment: Experiment) -> Iterator[tuple[str, str]]:
    if not experiment.plan:
        return
    for key, form in _FORMS.items():
        if (value := experiment.plan[0].get(key)) is not None:
            yield key, form(value)
