"""One engine under supervision: loading, ready, asleep, stopping, gone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from gearshift.domain.errors import Failure, GearshiftError, StopIncompleteError
from gearshift.domain.launch import HttpCall, LaunchSpec, ReadyReport, SleepRule, StopReport
from gearshift.domain.startup import StartReport
from gearshift.hardware.processes import activity
from gearshift.supervisor.health import HealthClient
from gearshift.supervisor.launch_log import LaunchLog
from gearshift.supervisor.liveness import Liveness
from gearshift.supervisor.racing import first_of
from gearshift.supervisor.readiness import Readiness, exit_failure, load_failed
from gearshift.supervisor.stop_command import run_stop_command
from gearshift.supervisor.stopping import MemoryWatch, port_problem
from gearshift.supervisor.tree import Tree, TreeEnd


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of an engine, as the launcher hands it to its child.

    ``tree`` None: the engine runs elsewhere and nothing was started.
    """

    spec: LaunchSpec
    tree: Tree | None
    log: LaunchLog
    log_path: Path
    log_grew: asyncio.Event  # set at each new line of the log
    client: HealthClient
    memory: MemoryWatch
    began: float  # monotonic
    spawn_s: float


class ChildOwner(Protocol):
    """What a child asks of the launcher that made it, and tells it."""

    def in_flight(self, variant: str) -> int | None:
        """Requests that the variant serves now; None = unknown."""
        ...

    def pids(self) -> Collection[int]:
        """Living processes of every launch. Looks through /proc, for milliseconds."""
        ...

    def note_growth(self) -> None:
        """A tree has processes that the state file may not know yet."""
        ...

    def forget(self, child: LocalChild) -> None:
        """The child is gone, verified."""
        ...


class LocalChild:
    """Implements `domain.launch.Child` for a tree on this box. Its state is written by its own tasks alone."""

    def __init__(self, launch: Launch, owner: ChildOwner) -> None:
        loop = asyncio.get_running_loop()
        self._launch = launch
        self._owner = owner
        self._ended: asyncio.Future[Failure] = loop.create_future()
        self._stop_asked = False
        self._stopping: asyncio.Task[StopReport] | None = None
        self._memory_at = launch.began  # when a stop saw the memory back
        in_flight = partial(owner.in_flight, launch.spec.variant)
        self._liveness = Liveness(launch.spec.timing, launch.client, self._cpu_s, in_flight)
        self._loading = asyncio.create_task(self._load(), name=f"load {launch.spec.variant}")
        self._loading.add_done_callback(_retrieve)
        self._watching: asyncio.Task[None] | None = None

    @property
    def spec(self) -> LaunchSpec:
        return self._launch.spec

    @property
    def report(self) -> StartReport:
        return self._launch.log.report

    @property
    def pids(self) -> tuple[int, ...]:
        return self._launch.tree.pids if self._launch.tree else ()

    @property
    def known_pids(self) -> tuple[int, ...]:
        return self._launch.tree.known_pids if self._launch.tree else ()

    @property
    def log_path(self) -> Path:
        return self._launch.log_path

    @property
    def tree(self) -> Tree | None:
        return self._launch.tree

    # -- loading and living ----------------------------------------------------------------------------------------

    async def ready(self) -> ReadyReport:
        try:
            return await asyncio.shield(self._loading)
        except asyncio.CancelledError:
            if not self._loading.cancelled():
                raise  # the waiter was cancelled; the load goes on
            raise load_failed(self.spec.variant, Failure("stopped while it was loading")) from None

    async def _load(self) -> ReadyReport:
        launch = self._launch
        readiness = Readiness(launch.spec, launch.client, launch.log, lambda: self.pids, launch.log_grew)
        report = await readiness.wait(launch.began, launch.spawn_s, launch.tree.death if launch.tree else None)
        self._owner.note_growth()
        self._watching = asyncio.create_task(self._watch(), name=f"watch {launch.spec.variant}")
        return report

    def _cpu_s(self) -> float | None:
        try:
            return activity(self.pids).cpu_s if self.spec.owns_process else None
        except OSError:  # we cannot look
            return None

    async def _watch(self) -> None:
        """From ready to the end: its death or its silence, whichever comes first."""
        tree = self._launch.tree
        failure = await first_of(self._liveness.watch(), *([self._death(tree)] if tree else []))
        if not self._stop_asked and not self._ended.done():
            self._ended.set_result(failure)

    async def _death(self, tree: Tree) -> Failure:
        return await exit_failure(self._launch.log, await tree.death())

    def ended(self) -> Awaitable[Failure]:
        return asyncio.shield(self._ended)

    # -- stopping --------------------------------------------------------------------------------------------------

    async def stop(self, *, grace_s: float | None = None) -> StopReport:
        self._stop_asked = True
        if self._stopping is None or _failed(self._stopping):
            self._stopping = asyncio.create_task(self._stop(grace_s), name=f"stop {self.spec.variant}")
            self._stopping.add_done_callback(_retrieve)
        elif grace_s is not None and self._launch.tree and not self._stopping.done():
            self._launch.tree.hurry(grace_s)
        return await asyncio.shield(self._stopping)

    async def _stop(self, grace_s: float | None) -> StopReport:
        began = time.monotonic()
        for task in (self._loading, self._watching):
            if task:
                task.cancel()
        tree = self._launch.tree
        pids = tree.seen | set(tree.pids) if tree else set()
        await self._launch.memory.before_stop(pids)
        end = await self._end(self.spec.stop.grace_s if grace_s is None else grace_s)
        exit_s = time.monotonic() - began
        problems = await self._left_behind(pids, end)
        if problems:
            raise StopIncompleteError(
                f"{self.spec.variant} was stopped but left something behind: {'; '.join(problems)}",
                hint="end what is named, then unload the variant again; nothing is started in its place until then",
            )
        await self._let_go()
        total_s = time.monotonic() - began
        return StopReport(exit_s, self._memory_at - began, total_s, killed=end.killed, exit_code=end.exit_code)

    async def _end(self, grace_s: float) -> TreeEnd:
        began = time.monotonic()
        rule = self.spec.stop
        if rule.command:
            await run_stop_command(rule.command, self.spec.env, grace_s)
        if self._launch.tree is None:
            return TreeEnd(None, killed=False, left=())
        return await self._launch.tree.end(rule.signal, max(0.0, grace_s - (time.monotonic() - began)))

    async def _left_behind(self, pids: set[int], end: TreeEnd) -> list[str]:
        """Processes first: while they live, port and memory cannot be back."""
        if not (self.spec.argv or self.spec.stop.command):
            return []  # it ran before us and runs on: nothing of it is ours to end
        if end.left:
            return [f"{process} is still alive" for process in end.left]
        memory = self._launch.memory
        tree = pids if self.spec.owns_process else memory.newcomers() - set(self._owner.pids())
        port, missing = await asyncio.gather(port_problem(self.spec.endpoint), self._memory_problem(tree))
        return [problem for problem in (port, missing) if problem]

    async def _memory_problem(self, tree: set[int]) -> str | None:
        problem = await self._launch.memory.problem(tree)
        self._memory_at = time.monotonic()
        return problem

    async def _let_go(self) -> None:
        if self._launch.tree:
            await self._launch.tree.close()
        await asyncio.to_thread(self._launch.log.close)
        self._owner.forget(self)

    # -- sleeping --------------------------------------------------------------------------------------------------

    async def sleep(self) -> None:
        """Raises GearshiftError when the engine refuses or does not say that it sleeps."""
        rule = self._sleep_rule()
        self._liveness.pause()
        problem = await self._calls((*rule.sleep, rule.is_sleeping))
        if problem:
            self._liveness.resume()
            msg = f"{self.spec.variant} did not go to sleep: {problem}"
            raise GearshiftError(msg, hint="stop it instead; `sleep:` can be taken out of the variant")

    async def wake(self) -> None:
        rule = self._sleep_rule()
        try:
            async with asyncio.timeout(rule.wake_timeout_s):
                problem = await self._calls(rule.wake) or (await self._launch.client.probe(rule.wake_timeout_s)).problem
        except TimeoutError:
            problem = f"no token within {rule.wake_timeout_s:g} s"
        if problem:
            raise load_failed(self.spec.variant, Failure(f"it did not wake: {problem}", fix="start it cold"))
        self._liveness.resume()

    async def _calls(self, calls: Sequence[HttpCall]) -> str | None:
        """Make the calls in order; the first one's problem, if there is one."""
        for call in calls:
            answer = await self._launch.client.call(call)
            refused = call.refusal is not None and call.refusal in answer.body.replace(b" ", b"")
            if refused or not answer.ok:
                return answer.problem or f"{call.path} answered {answer.body.decode('utf-8', 'replace')}"
        return None

    def _sleep_rule(self) -> SleepRule:
        if self.spec.sleep is None:
            msg = f"{self.spec.variant} has no sleep mode"
            raise GearshiftError(msg, hint="set `sleep:` on the variant")
        return self.spec.sleep


def _retrieve(task: asyncio.Task[Any]) -> None:
    """A result that nobody awaited is no lost error: `ready` and `stop` hand the same task to whoever asks later."""
    if not task.cancelled():
        task.exception()


def _failed(task: asyncio.Task[StopReport]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
