"""Runs one question from the command line: budget, progress, Ctrl-C, and the answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Protocol

import click

from gearshift.bench.budget import Fitted, fit
from gearshift.bench.outcome import ExperimentResult
from gearshift.bench.plan import ExperimentPlan
from gearshift.bench.runner import Conclude, Runner, RunProgress
from gearshift.cli.bench.asked import Asked
from gearshift.cli.bench.interruption import run_until_signal
from gearshift.cli.bench.place import Place
from gearshift.cli.bench.places import open_place
from gearshift.cli.bench.view import render
from gearshift.cli.progress import Progress
from gearshift.domain.errors import GearshiftError
from gearshift.domain.units import format_duration
from gearshift.store import Measurements


@dataclass(frozen=True, slots=True)
class Question:
    """One experiment: how it is run on a place, and how cells that an interruption left are concluded.

    ``names`` are its settings, each with the model, variant or URL it means; none where one server answers all.
    """

    name: str
    run: Callable[[Place, Runner], Awaitable[ExperimentResult]]
    conclude: Conclude
    names: Mapping[str, str] = field(default_factory=dict)


class Answered(Protocol):
    """What a question came to, as far as it got."""

    @property
    def interrupted(self) -> bool: ...

    def to_json(self) -> dict[str, object]: ...


@dataclass(slots=True)
class Ending:
    """How a run ended: with an answer, in part, or not at all."""

    answer: Answered | None = None
    failure: GearshiftError | None = None


def ask(asked: Asked, question: Question) -> None:
    """Measure and print. What is done is printed and kept even when Ctrl-C or the server's end cuts it short."""
    ending = Ending()
    with asked.session.output.progress() as progress:
        status = run_until_signal(_measured(asked, question, progress, ending))
    finish(asked, ending, status)


def finish(asked: Asked, ending: Ending, status: int) -> None:
    """Print the answer. Raises what went wrong, or exits with the ``status`` of an interruption, if there was one."""
    if (answer := ending.answer) is not None:
        document = plain(answer.to_json()) | planned(answer)
        asked.session.output.emit(
            document, as_json=asked.as_json, human=lambda: render(document, width=asked.session.output.width)
        )
    if ending.failure is not None:
        raise ending.failure
    if status:
        kept = "what was whole is kept" if answer and asked.keep else "nothing is kept"
        asked.session.output.say(f"interrupted; {kept}")
        raise click.exceptions.Exit(status)


async def _measured(asked: Asked, question: Question, progress: Progress, ending: Ending) -> None:
    try:
        async with open_place(asked, question.names, progress) as place:
            runner = runner_for(asked, place, progress)
            try:
                ending.answer = await question.run(place, runner)
            finally:
                if ending.answer is None and runner.done:
                    plan = ExperimentPlan(question.name, ())
                    ending.answer = runner.result(plan, question.conclude, interrupted=True)
    except GearshiftError as error:
        ending.failure = error
    except asyncio.CancelledError:
        progress("stopping")


def runner_for(asked: Asked, place: Place, progress: Progress, *, campaign: int | None = None) -> Runner:
    """A runner that keeps its cells in the store and shows where it stands."""
    return Runner(
        place.rig,
        arms=place.arms,
        measurements=measurements(asked),
        switch=place.switch,
        resume=asked.resume,
        campaign=campaign,
        progress=lambda stand: show(stand, progress),
    )


def measurements(asked: Asked) -> Measurements | None:
    """Where results are kept; None for --no-store."""
    return Measurements(asked.session.paths.database) if asked.keep else None


async def within_budget(asked: Asked, place: Place, plan: ExperimentPlan) -> ExperimentPlan:
    """The plan cut to --budget by the pace that a probe shows, with a word on what was left out."""
    if asked.budget_s is None:
        return plan
    fitted = fit(plan, await place.rig.pace(), asked.budget_s)
    say = asked.session.output.say
    say(f"planned: {len(fitted.plan.cells)} cells, about {format_duration(fitted.cost_s)}")
    for cell in fitted.plan.left_out:
        say(f"left out, too long for the budget: {cell.words}")
    if fitted.cost_s < fitted.whole_s:
        say(_enough(fitted))
    return fitted.plan


def _enough(fitted: Fitted) -> str:
    """The budgets that would do."""
    fewer = fitted.plan.left_out and fitted.every_s < fitted.whole_s
    every = f"; every cell with fewer repeats needs about {format_duration(fitted.every_s)}" if fewer else ""
    return f"the whole plan needs a budget of about {format_duration(fitted.whole_s)}{every}"


def show(run: RunProgress, progress: Progress) -> None:
    """Where a run stands, in one line."""
    if run.cell is None:
        return
    left = "" if run.left_s is None else f", about {format_duration(run.left_s)} left"
    fraction = run.done / run.total if run.total else None
    progress(f"{run.cell.experiment} {run.done + 1}/{run.total}: {run.cell.words}{left}", fraction)


def planned(answer: Answered) -> dict[str, object]:
    """The cells' plans, by which a report says how to repeat them; swaps have none."""
    if not isinstance(answer, ExperimentResult):
        return {}
    return plain({"plan": {"cells": [asdict(cell.plan) for cell in answer.cells]}})


def plain(document: Mapping[str, object]) -> dict[str, object]:
    """The document as its JSON text says it: tuples are lists."""
    found: dict[str, object] = json.loads(json.dumps(document))
    return found
