"""`gearshift bench swap`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import click

from gearshift import __version__
from gearshift.bench.client import Client
from gearshift.bench.experiments import swap
from gearshift.bench.outcome import Outcome
from gearshift.bench.target import Target
from gearshift.cli.bench.admin import BenchAdmin, pick
from gearshift.cli.bench.asked import BESIDE, KEPT, KEY, RESUME, Asked, asks, repeats
from gearshift.cli.bench.interruption import run_until_signal
from gearshift.cli.bench.provenance import provenance_of
from gearshift.cli.bench.running import Ending, finish, measurements
from gearshift.cli.client import reachable
from gearshift.cli.durations import Duration
from gearshift.cli.progress import Progress
from gearshift.domain.errors import GearshiftError
from gearshift.store import ExperimentRecord
from gearshift.store.measurements import State

_IDLE_S, _POLL_S = 2.0, 0.1
_BUDGET = click.option("--budget", "budget_s", type=Duration(), help="Leave out the pairs that do not fit.")


@dataclass(slots=True)
class Swaps:
    """The pairs so far, and what is known of each variant that was resident for them."""

    target: Target
    cells: list[swap.SwapCell] = field(default_factory=list)
    variants: dict[str, Target] = field(default_factory=dict)
    interrupted: bool = True

    def to_json(self) -> dict[str, object]:
        """The document of ``bench swap --json``."""
        document = {"experiment": "swap", "tool_version": __version__, "target": self.target.to_json()}
        cells = {"cells": [cell.to_json() for cell in self.cells]}
        return document | cells | self.outcome.to_json() | {"interrupted": self.interrupted}

    @property
    def outcome(self) -> Outcome:
        targets = {variant: target.to_json() for variant, target in self.variants.items()}
        outcome = swap.conclude(self.cells)
        return replace(outcome, findings={**(outcome.findings or {}), "targets": targets})


@click.command("swap")
@click.argument("variants", nargs=-1, metavar="[A B ...]")
@asks(KEY, BESIDE, repeats(3), _BUDGET, RESUME, *KEPT)
def command(asked: Asked, variants: tuple[str, ...]) -> None:
    """How long does each swap take, and what with?

    Every ordered pair of the named variants, else of all: the first is made resident, then one request to the second
    causes the swap. The time to its first token is the client's; the phases are the server's own. A variant that falls
    asleep for another is measured stopped and asleep: a row of its own tells what waking takes. It does not begin a
    pair while others' requests are served: no lease could keep them out of a swap. With --budget a pair is reckoned as
    long as the longest before it. With --resume each variant is loaded once to see whether it is the one on record.
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
    async with BenchAdmin(asked.session.admin.server) as admin:
        rows = await admin.get("/variants")
        names = [pick(rows, name) for name in variants] or [str(row["variant"]) for row in rows]
        sleepers = {str(row["variant"]) for row in rows if row["engine"] == "vllm"}
        await _pairs(asked, admin, names, progress, ending, campaign, sleepers)


async def _pairs(
    asked: Asked, admin: BenchAdmin, names: Sequence[str], progress: Progress, ending: Ending, campaign: int | None,
    sleepers: Collection[str],
) -> None:  # fmt: skip
    status = await admin.get("/status")
    url = asked.session.admin.server.url or reachable(status["listen"])
    target = Target(url, ", ".join(names), provenance={"gearshift": str(status["version"])})
    ordered = _ordered(names)
    found = Swaps(target)
    kept = _Kept(asked, target, campaign)
    run = _Run(asked, admin, found, kept, sleepers)
    state: State = "failed"
    try:
        async with Client(url, key=asked.gateway_key) as client:
            for number, (origin, goal) in enumerate(ordered):
                progress(f"swap {number + 1}/{len(ordered)}: {origin} to {goal}", number / len(ordered))
                await run.take(client, origin, goal)
        found.interrupted = False
        state = "done"
    except asyncio.CancelledError:
        state = "interrupted"
        raise
    finally:
        ending.answer = found if found.cells else None
        kept.end(found, state)


class _Run:
    """Takes pair after pair: from the store, by measuring, or not at all where the budget ends."""

    def __init__(self, asked: Asked, admin: BenchAdmin, found: Swaps, kept: _Kept, sleepers: Collection[str]) -> None:
        self._asked = asked
        self._admin = admin
        self._found = found
        self._kept = kept
        self._sleepers = sleepers  # that may have a sleep mode
        self._begun = time.monotonic()
        self._took_s: list[float] = []

    async def take(self, client: Client, origin: str, goal: str) -> None:
        """Add the pair to what is found, or say that it is left out. Raises GearshiftError."""
        if not swap.fits(self._asked.budget_s, time.monotonic() - self._begun, self._took_s):
            self._asked.session.output.say(f"left out, too long for the budget: {origin} > {goal}")
            return
        if not self._asked.beside_traffic:
            await _alone(self._admin)
        if self._asked.resume and (stored := await self._stored(origin, goal)):
            self._found.cells += stored
            return
        await self._measure(client, origin, goal)

    async def _stored(self, origin: str, goal: str) -> list[swap.SwapCell]:
        """The pair as it was measured, with its waking where it has one; none where it was not."""
        cold = self._kept.find(await self._key(origin, goal))
        woken = self._kept.find(await self._key(origin, goal, woken=True)) if cold else None
        return [cell for cell in (cold, woken) if cell]

    async def _measure(self, client: Client, origin: str, goal: str) -> None:
        await self._known(origin)  # while it is resident: it is stopped when the pair is done
        begun = time.monotonic()
        trials, sleeper = self._asked.base.trials, goal in self._sleepers
        cells = await swap.measure(client, self._admin, origin, goal, trials=trials, sleeper=sleeper)
        self._took_s.append(time.monotonic() - begun)
        self._found.cells += cells
        for cell in cells:
            self._kept.add(cell, await self._key(origin, goal, woken=cell.woken))

    async def _key(self, origin: str, goal: str, *, woken: bool = False) -> str:
        way = {"beside_traffic": self._asked.beside_traffic, "server": self._asked.session.admin.server.url}
        sides = await self._known(origin), await self._known(goal)
        return swap.key(*sides, trials=self._asked.base.trials, way=way, woken=woken)

    async def _known(self, variant: str) -> Target:
        """What the variant is; only a running one shows its command line and its files."""
        variants = self._found.variants
        if variant not in variants:
            await self._admin.load(variant)
            variants[variant] = await _resident(self._admin, self._found.target.url, variant)
        return variants[variant]


async def _resident(admin: BenchAdmin, url: str, variant: str) -> Target:
    """What is known of a variant that runs now."""
    row = await admin.get(f"/variants/{variant}")
    return Target(
        url, variant, row["engine"], row["engine_version"], row["context"],
        provenance=await provenance_of(admin, variant),
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

    def find(self, address: str) -> swap.SwapCell | None:
        stored = self._measurements.find_cell(address) if self._measurements else None
        return swap.from_record(stored.record) if stored else None

    def add(self, cell: swap.SwapCell, address: str) -> None:
        if self._measurements:
            self._measurements.add_cell(self._number, swap.to_record(cell, address))

    def end(self, found: Swaps, state: State) -> None:
        if self._measurements:
            outcome = found.outcome.to_json()
            self._measurements.end_experiment(self._number, ended=time.time(), state=state, outcome=outcome)
