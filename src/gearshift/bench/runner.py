"""Runs an experiment's cells in order, keeps each as it is done, and resumes at the cell."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Protocol

from gearshift import __version__
from gearshift.bench.cell import CellResult
from gearshift.bench.outcome import ExperimentResult, Outcome
from gearshift.bench.plan import CellPlan, ExperimentPlan
from gearshift.bench.records import from_record, identity, to_record
from gearshift.bench.rig import Rig
from gearshift.store import ExperimentRecord, Measurements, StoredCell, StoreError
from gearshift.store.measurements import State

Conclude = Callable[[Sequence[CellResult]], Outcome]


@dataclass(frozen=True, slots=True)
class RunProgress:
    """Where a run stands. ``left_s`` is None until the first cell is done."""

    done: int
    total: int
    cell: CellPlan | None  # the one that runs now
    elapsed_s: float
    left_s: float | None


class Switch(Protocol):
    """Makes the server what a cell wants before it runs: loads a variant behind a Gearshift."""

    async def to(self, plan: CellPlan) -> int:
        """Returns the boot's number: cells and trials of one engine start share it."""
        ...


class NoSwitch:
    """The server is what it is; everything is one boot."""

    async def to(self, plan: CellPlan) -> int:  # noqa: ARG002 - the port's signature
        return 0


class Runner:
    """Runs experiments on one rig, or on the rig named by a cell's setting.

    With ``measurements`` each cell is stored as soon as it is whole, and with ``resume`` a valid cell of the same
    content address is taken from there instead of being measured again.
    """

    def __init__(
        self, rig: Rig, *, arms: Mapping[str, Rig] | None = None, measurements: Measurements | None = None,
        switch: Switch | None = None, resume: bool = False, campaign: int | None = None,
        progress: Callable[[RunProgress], None] = lambda _: None,
    ) -> None:  # fmt: skip
        self.rig = rig
        self.switch: Switch = switch or NoSwitch()
        self.done: list[CellResult] = []  # of the running or last experiment; whole even after an interruption
        self._arms = arms or {}
        self._measurements = measurements
        self._resume = resume
        self._campaign = campaign
        self._progress = progress
        self._experiment: int | None = None
        self._unstored: str | None = None  # why the store failed during this experiment
        self._begun = 0.0  # time.monotonic
        self._moved = 0  # tokens of the cells that were measured, not taken from the store

    def arm(self, setting: str) -> Rig:
        """The rig that measures cells of this setting."""
        return self._arms.get(setting, self.rig)

    async def run(self, plan: ExperimentPlan, conclude: Conclude) -> ExperimentResult:
        """Every cell of the plan, then the conclusion.

        Raises:
            TargetError: the server is gone; what was done is stored and in ``done``.
            CancelledError: likewise, on Ctrl-C.
        """

        async def cells() -> None:
            for index, cell in enumerate(plan.cells):
                self.report(index, plan, cell)
                await self.measure(cell)

        return await self.keep(plan, cells, conclude)

    async def keep(
        self, plan: ExperimentPlan, work: Callable[[], Awaitable[None]], conclude: Conclude
    ) -> ExperimentResult:
        """Run ``work``, which adds its cells by `add`, with the experiment's beginning and end on record."""
        self.done = []
        self._unstored = None
        self._begun = time.monotonic()
        self._moved = 0
        self._begin(plan)
        state: State = "failed"
        try:
            await work()
            state = "done"
        except asyncio.CancelledError:
            state = "interrupted"
            raise
        finally:
            result = self.result(plan, conclude, interrupted=state != "done")
            self._end(state, result.outcome)
        if self._unstored is not None:
            result = self.result(plan, conclude, interrupted=False)
        self.report(len(plan.cells), plan, None)
        return result

    def result(self, plan: ExperimentPlan, conclude: Conclude, *, interrupted: bool) -> ExperimentResult:
        """The experiment as far as it got."""
        outcome = conclude(self.done) if self.done else Outcome()
        if targets := self._targets():
            outcome = replace(outcome, findings={**(outcome.findings or {}), "targets": targets})
        if plan.left_out:
            which = "; ".join(cell.words for cell in plan.left_out)
            outcome = replace(outcome, advice=(*outcome.advice, f"left out, too long for the budget: {which}"))
        if self._unstored is not None:
            outcome = replace(outcome, advice=(*outcome.advice, f"not everything is stored: {self._unstored}"))
        return ExperimentResult(plan.name, self.rig.target, tuple(self.done), outcome, interrupted)

    def _targets(self) -> dict[str, object]:
        """What each setting was measured on, where settings are servers or variants of their own."""
        if len(self._arms) < 2:  # noqa: PLR2004 - the one target says it all
            return {}
        settings = [result.plan.setting for result in self.done if result.plan.setting in self._arms]
        return {setting: self.arm(setting).target.to_json() for setting in settings}

    def add(self, result: CellResult) -> None:
        """Keep a cell that is whole, also one that was measured before: an experiment's record has all of its cells.

        A store that fails half-way costs the record, not the measurement.
        """
        self.done.append(result)
        if self._measurements is None or self._experiment is None:
            return
        try:
            self._measurements.add_cell(self._experiment, to_record(result, self.arm(result.plan.setting).target))
        except StoreError as error:
            self._unstored = error.message

    def report(self, done: int, plan: ExperimentPlan, cell: CellPlan | None) -> None:
        """Tell where the run stands; time left by the tokens still to move, at the pace of those that were measured."""
        left = sum(waiting.tokens for waiting in plan.cells[done:])
        self._tell(done, len(plan.cells), cell, left / self._moved if self._moved else None)

    def report_pairs(self, done: int, total: int, cell: CellPlan) -> None:
        """Likewise for a comparison, whose cells grow together; time left by the pairs."""
        self._tell(done, total, cell, (total - done) / done if done else None)

    def _tell(self, done: int, total: int, cell: CellPlan | None, times: float | None) -> None:
        """``times`` is how many times as long as so far the rest takes; None = nothing tells."""
        elapsed = time.monotonic() - self._begun
        self._progress(RunProgress(done, total, cell, elapsed, None if times is None else elapsed * times))

    async def measure(self, cell: CellPlan) -> None:
        """Add the cell: from the store when resuming and it is there, else measured now."""
        boot = await self.switch.to(cell)
        rig = self.arm(cell.setting)  # only now: an engine that was started anew has a new address
        if (kept := self._kept(cell, rig)) is not None:
            self.add(self._read(kept, rig))
            return
        prepared = await rig.prepare(cell)
        if prepared.plan != cell and (kept := self._kept(prepared.plan, rig)) is not None:  # the server is asked less
            self.add(self._read(kept, rig))
            return
        self.add(rig.result(prepared, await rig.trials(prepared, boot=boot)))
        self._moved += cell.tokens

    async def recall(self, cells: Sequence[CellPlan]) -> bool:
        """Add all these cells from the store when resuming, if one experiment measured them; else none of them."""
        found = []
        for cell in cells:
            await self.switch.to(cell)
            rig = self.arm(cell.setting)
            if (kept := self._kept(cell, rig)) is None:
                return False
            found.append((kept, self._read(kept, rig)))
        if len({kept.experiment for kept, _ in found}) > 1:
            return False
        for _, result in found:
            self.add(result)
        return True

    def _kept(self, cell: CellPlan, rig: Rig) -> StoredCell | None:
        if self._measurements is None or not self._resume:
            return None
        return self._measurements.find_cell(cell.key(identity(rig.target)))

    def _read(self, kept: StoredCell, rig: Rig) -> CellResult:
        trials = self._measurements.trials(kept.id) if self._measurements else ()
        return from_record(kept.record, trials, rig.limits)

    def _begin(self, plan: ExperimentPlan) -> None:
        if self._measurements is None:
            return
        record = ExperimentRecord(
            name=plan.name,
            started=time.time(),
            target=self.rig.target.to_json(),
            plan={"cells": [asdict(cell) for cell in plan.cells]},
            model=self.rig.target.model,
            tool_version=__version__,
            campaign=self._campaign,
        )
        self._experiment = self._measurements.begin_experiment(record)

    def _end(self, state: State, outcome: Outcome) -> None:
        if self._measurements is None or self._experiment is None:
            return
        try:
            self._measurements.end_experiment(
                self._experiment, ended=time.time(), state=state, outcome=outcome.to_json()
            )
        except StoreError as error:
            self._unstored = error.message
