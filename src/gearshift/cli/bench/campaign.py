"""`gearshift bench campaign`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click
import yaml

from gearshift.bench.campaign import Campaign, fit_campaign, read_campaign
from gearshift.bench.outcome import ExperimentResult
from gearshift.cli.bench.asked import BUDGET, KEPT, WHERE, Asked, asks
from gearshift.cli.bench.interruption import run_until_signal
from gearshift.cli.bench.place import Place, open_place
from gearshift.cli.bench.running import described, measurements, plain, planned, runner_for
from gearshift.cli.bench.view import render
from gearshift.cli.progress import Progress
from gearshift.domain.errors import ConfigError, GearshiftError, Problem
from gearshift.domain.units import format_duration


@dataclass(slots=True)
class _Ran:
    """The experiments that are done, the one that was cut short last."""

    results: list[ExperimentResult] = field(default_factory=list)
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
        async with open_place(asked, {}, progress) as place:
            campaign = await _planned(asked, place, document)
            await _steps(asked, place, campaign, document, progress, ran)
    except GearshiftError as error:
        ran.failure = error
    except asyncio.CancelledError:
        progress("stopping")


async def _planned(asked: Asked, place: Place, document: Mapping[str, Any]) -> Campaign:
    campaign = read_campaign(document, context=place.rig.target.context)
    if asked.budget_s is not None:
        campaign = replace(campaign, budget_s=asked.budget_s)
    if campaign.budget_s is None:
        return campaign
    campaign, fitted = fit_campaign(campaign, await place.rig.pace())
    asked.session.output.say(f"planned: about {format_duration(sum(found.cost_s for found in fitted))}")
    for cell in (cell for found in fitted for cell in found.dropped):
        asked.session.output.say(f"left out, too long for the budget: {described(cell)}")
    return campaign


async def _steps(
    asked: Asked, place: Place, campaign: Campaign, document: Mapping[str, Any], progress: Progress, ran: _Ran
) -> None:
    kept = measurements(asked)
    number = kept.begin_campaign(campaign.name, started=time.time(), plan=dict(document)) if kept else None
    runner = runner_for(asked, place, progress, campaign=number)
    for step in campaign.steps:
        try:
            ran.results.append(await runner.run(step.plan, step.conclude))
        except BaseException:
            if runner.done:
                ran.results.append(runner.result(step.plan, step.conclude, interrupted=True))
            raise


def _finish(asked: Asked, ran: _Ran, status: int) -> None:
    documents = [plain(result.to_json()) | planned(result) for result in ran.results]
    asked.session.output.emit(documents, as_json=asked.as_json, human=lambda: "\n\n".join(map(render, documents)))
    if ran.failure is not None:
        raise ran.failure
    if status:
        asked.session.output.say("interrupted; run it again to go on")
        raise click.exceptions.Exit(status)
