"""`gearshift bench swap`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import click

from gearshift import __version__
from gearshift.bench.client import Client
from gearshift.bench.experiments import swap
from gearshift.bench.outcome import Outcome
from gearshift.bench.target import Target
from gearshift.cli.bench.admin import BenchAdmin, pick
from gearshift.cli.bench.asked import BESIDE, KEPT, KEY, Asked, asks, repeats
from gearshift.cli.bench.interruption import run_until_signal
from gearshift.cli.bench.provenance import provenance_of
from gearshift.cli.bench.running import Ending, finish, measurements
from gearshift.cli.progress import Progress
from gearshift.domain.errors import GearshiftError
from gearshift.store import ExperimentRecord
from gearshift.store.measurements import State

_IDLE_S, _POLL_S = 2.0, 0.1


@dataclass(slots=True)
class Swaps:
    """The pairs measured so far, and each variant that one of them made resident."""

    target: Target
    cells: list[swap.SwapCell] = field(default_factory=list)
    variants: dict[str, Target] = field(default_factory=dict)
    interrupted: bool = True

    def to_json(self) -> dict[str, object]:
        """The document of ``bench swap --json``."""
        document = {"experiment": "swap", "target": self.target.to_json(), "cells": [c.to_json() for c in self.cells]}
        return document | self.outcome.to_json() | {"interrupted": self.interrupted}

    @property
    def outcome(self) -> Outcome:
        targets = {variant: target.to_json() for variant, target in self.variants.items()}
        return replace(swap.conclude(self.cells), findings={"targets": targets})


@click.command("swap")
@click.argument("variants", nargs=-1, metavar="[A B ...]")
@asks(KEY, BESIDE, repeats(3), *KEPT)
def command(asked: Asked, variants: tuple[str, ...]) -> None:
    """How long does each swap take, and what with?

    Every ordered pair of the named variants, else of all: the first is made resident, then one request to the second
    causes the swap. The time to its first token is the client's; the phases are the server's own. It does not begin a
    pair while others' requests are served: no lease could keep them out of a swap.
    """
    ending = Ending()
    with asked.session.output.progress() as progress:
        status = run_until_signal(_measured(asked, variants, progress, ending))
    finish(asked, ending, status)


async def _measured(asked: Asked, variants: Sequence[str], progress: Progress, ending: Ending) -> None:
    try:
        await measure_swaps(asked, variants, progress, ending)
    except GearshiftError as error:
        ending.failure = error
    except asyncio.CancelledError:
        progress("stopping")


async def measure_swaps(
    asked: Asked, variants: Sequence[str], progress: Progress, ending: Ending, *, campaign: int | None = None
) -> None:
    """Every ordered pair of ``variants``, else of all; ``ending`` gets what is whole. Raises GearshiftError."""
    async with BenchAdmin(asked.session.admin.target) as admin:
        rows = await admin.get("/variants")
        names = [pick(rows, name) for name in variants] or [str(row["variant"]) for row in rows]
        await _pairs(asked, admin, names, progress, ending, campaign)


async def _pairs(
    asked: Asked, admin: BenchAdmin, names: Sequence[str], progress: Progress, ending: Ending, campaign: int | None
) -> None:
    status = await admin.get("/status")
    url = asked.session.admin.target.url or str(status["listen"])
    target = Target(url, ", ".join(names), provenance={"gearshift": str(status["version"])})
    ordered = _ordered(names)
    found = Swaps(target)
    kept = _Kept(asked, target, campaign)
    try:
        async with Client(url, key=asked.key) as client:
            for number, (origin, goal) in enumerate(ordered):
                if not asked.beside_traffic:
                    await _alone(admin)
                progress(f"swap {number + 1}/{len(ordered)}: {origin} to {goal}", number / len(ordered))
                cell = await swap.measure(client, admin, origin, goal, trials=asked.base.trials)
                found.cells.append(cell)
                kept.add(cell)
                if goal not in found.variants:
                    found.variants[goal] = await _resident(asked, admin, url, goal)
        found.interrupted = False
    finally:
        ending.answer = found if found.cells else None
        kept.end(found)


async def _resident(asked: Asked, admin: BenchAdmin, url: str, variant: str) -> Target:
    """What is known of a variant that runs now."""
    row = await admin.get(f"/variants/{variant}")
    return Target(
        url, variant, row["engine"], row["engine_version"], row["context"],
        provenance=await provenance_of(asked.session, admin, row),
    )  # fmt: skip


async def _alone(admin: BenchAdmin) -> None:
    """Raises GearshiftError where somebody's requests are served; our own last one may take a moment to be counted."""
    until = time.monotonic() + _IDLE_S
    while busy := [str(row["variant"]) for row in await admin.get("/variants") if row["in_flight"] or row["queued"]]:
        if time.monotonic() > until:
            msg = f"others' requests are served by {', '.join(busy)}"
            raise GearshiftError(msg, hint="wait until they are done, or measure with --beside-traffic")
        await asyncio.sleep(_POLL_S)


def _ordered(names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    try:
        return swap.pairs(names)
    except ValueError as error:
        raise GearshiftError(str(error), hint="name two variants of this server") from error


class _Kept:
    """The experiment on record, where results are kept."""

    def __init__(self, asked: Asked, target: Target, campaign: int | None) -> None:
        self._measurements = measurements(asked)
        record = ExperimentRecord(
            name="swap", started=time.time(), target=target.to_json(), plan={}, model=target.model,
            tool_version=__version__, campaign=campaign,
        )  # fmt: skip
        self._number = self._measurements.begin_experiment(record) if self._measurements else 0

    def add(self, cell: swap.SwapCell) -> None:
        if self._measurements:
            self._measurements.add_cell(self._number, swap.to_record(cell))

    def end(self, found: Swaps) -> None:
        if self._measurements:
            outcome = found.outcome.to_json()
            state: State = "interrupted" if found.interrupted else "done"
            self._measurements.end_experiment(self._number, ended=time.time(), state=state, outcome=outcome)
