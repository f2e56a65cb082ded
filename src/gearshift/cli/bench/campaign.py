"""`gearshift bench campaign`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import click
import yaml

from gearshift.bench.campaign import Campaign, fit_campaign, read_campaign
from gearshift.bench.campaign_kinds import SWAP, Step
from gearshift.bench.runner import Runner
from gearshift.cli.bench.asked import BUDGET, KEPT, WHERE, Asked, asks
from gearshift.cli.bench.interruption import run_until_signal
from gearshift.cli.bench.place import Place
from gearshift.cli.bench.places import open_place
from gearshift.cli.bench.running import Answered, Ending, measurements, plain, planned, runner_for
from gearshift.cli.bench.speculation import settings_of
from gearshift.cli.bench.swap import measure_swaps
from gearshift.cli.bench.view import render
from gearshift.cli.progress import Progress
from gearshift.domain.errors import ConfigError, GearshiftError, Problem
from gearshift.domain.units import format_duration


@dataclass(slots=True)
class _Ran:
    """The experiments that are done, the one that was cut short last."""

    results: list[Answered] = field(default_factory=list)
    failure: GearshiftError | None = None


@click.command("campaign")
@click.argument("file", type=click.Path(path_type=Path))
@asks(*WHERE, BUDGET, *KEPT)
def command(asked: Asked, file: Path) -> None:
    """Measure what a campaign file asks, resuming at the cell.

    FILE is YAML or JSON with `name`, `budget`, `defaults` and a list of `experiments`, each with its `kind`. Run it
    again after an interruption: cells that are stored and valid are not measured twice. --budget takes precedence.
    """
    document = _document(file)
    asked = replace(asked, resume=True)
    ran = _Ran()
    with asked.session.output.progress() as progress:
        status = run_until_signal(_measured(asked, document, progress, ran))
    _finish(asked, ran, status)


def _document(file: Path) -> Mapping[str, Any]:
    """Raises ConfigError for what cannot be read."""
    try:
        found = yaml.safe_load(file.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError((Problem(f"cannot be read: {error}", "campaign", file=file),)) from error
    except yaml.YAMLError as error:
        raise ConfigError((Problem(f"is no YAML: {error}", "campaign", file=file),)) from error
    if not isinstance(found, Mapping):
        raise ConfigError((Problem("is no mapping", "campaign", file=file, hint="give name and experiments"),))
    return found


async def _measured(asked: Asked, document: Mapping[str, Any], progress: Progress, ran: _Ran) -> None:
    try:
        async with _Places(asked, progress) as places:
            campaign = await _planned(asked, places, document)
            await _steps(asked, places, campaign, document, progress, ran)
    except GearshiftError as error:
        ran.failure = error
    except asyncio.CancelledError:
        progress("stopping")


class _Places:
    """One place at a time, kept open while the next step wants the same."""

    def __init__(self, asked: Asked, progress: Progress) -> None:
        self._asked = asked
        self._progress = progress
        self._stack = AsyncExitStack()
        self._open: tuple[Mapping[str, str], Place] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def at(self, step: Step) -> Place:
        names = _names(self._asked, step)
        if self._open is None or self._open[0] != names:
            await self.close()
            self._open = names, await self._stack.enter_async_context(open_place(self._asked, names, self._progress))
        return self._open[1]

    async def close(self) -> None:
        """Give the lease back."""
        self._open = None
        await self._stack.aclose()


def _names(asked: Asked, step: Step) -> Mapping[str, str]:
    """A step's settings with what each means; bare numbers of drafts are looked up as the verb does."""
    if all(step.names.values()):
        return step.names
    return settings_of(asked, tuple(f"{setting}={name}" if name else setting for setting, name in step.names.items()))


async def _planned(asked: Asked, places: _Places, document: Mapping[str, Any]) -> Campaign:
    """The campaign that fits. A server is asked for its context and its pace only where a step or a budget needs it."""
    campaign = _budgeted(asked, read_campaign(document, context=None))
    steps = [step for step in campaign.steps if step.plan.name != SWAP]
    deciding = steps if campaign.budget_s is not None else [step for step in steps if step.plan.name == "ladder"]
    if not deciding:
        return campaign
    rig = (await places.at(deciding[0])).rig
    campaign = _budgeted(asked, read_campaign(document, context=rig.target.context))
    if campaign.budget_s is None:
        return campaign
    campaign, fitted = fit_campaign(campaign, await rig.pace())
    asked.session.output.say(f"planned: about {format_duration(sum(found.cost_s for found in fitted))}")
    for cell in (cell for found in fitted for cell in found.plan.left_out):
        asked.session.output.say(f"left out, too long for the budget: {cell.words}")
    whole_s = sum(found.whole_s for found in fitted)
    if sum(found.cost_s for found in fitted) < whole_s:
        swaps = " without its swaps" if any(step.plan.name == SWAP for step in campaign.steps) else ""
        asked.session.output.say(f"the whole campaign{swaps} needs about {format_duration(whole_s)}")
    return campaign


def _budgeted(asked: Asked, campaign: Campaign) -> Campaign:
    return campaign if asked.budget_s is None else replace(campaign, budget_s=asked.budget_s)


async def _steps(
    asked: Asked, places: _Places, campaign: Campaign, document: Mapping[str, Any], progress: Progress, ran: _Ran
) -> None:
    kept = measurements(asked)
    plan = plain(document)
    number = kept.begin_campaign(campaign.name, started=time.time(), plan=plan) if kept else None
    for step in campaign.steps:
        if step.plan.name == SWAP:
            await places.close()  # a lease that is held would be in the way of every swap
            await _swapped(replace(asked, budget_s=campaign.swap_budget_s), step, progress, ran, number)
        else:
            place = await places.at(step)
            await _asked(step, runner_for(asked, place, progress, campaign=number), ran)


async def _asked(step: Step, runner: Runner, ran: _Ran) -> None:
    try:
        ran.results.append(await step.run(runner))
    except BaseException:
        if runner.done:
            ran.results.append(runner.result(step.plan, step.conclude, interrupted=True))
        raise


async def _swapped(asked: Asked, step: Step, progress: Progress, ran: _Ran, number: int | None) -> None:
    ending = Ending()
    asked = replace(asked, base=replace(asked.base, trials=step.trials))
    try:
        await measure_swaps(asked, tuple(step.names), progress, ending, campaign=number)
    finally:
        if ending.answer is not None:
            ran.results.append(ending.answer)


def _finish(asked: Asked, ran: _Ran, status: int) -> None:
    documents = [plain(result.to_json()) | planned(result) for result in ran.results]
    width = asked.session.output.width
    told = (render(document, width=width) for document in documents)
    asked.session.output.emit(documents, as_json=asked.as_json, human=lambda: "\n\n".join(told))
    if ran.failure is not None:
        raise ran.failure
    if status:
        asked.session.output.say("interrupted; run it again to go on")
        raise click.exceptions.Exit(status)
