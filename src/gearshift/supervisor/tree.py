"""One engine's process tree: its keeper, its members, its end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gearshift.domain.launch import LaunchSpec
from gearshift.hardware import processes
from gearshift.hardware.processes import Process
from gearshift.supervisor.keeper_handle import KeeperHandle, KeeperJob
from gearshift.supervisor.keepers import IdleKeeper
from gearshift.supervisor.orphans import KILL_S, end_all, survivors
from gearshift.supervisor.own_processes import MARKER
from gearshift.supervisor.racing import never
from gearshift.supervisor.state_file import ChildRecord, Member

ORPHAN_GRACE_S = 5.0  # at most, should Gearshift die: nobody waits for that stop


@dataclass(frozen=True, slots=True)
class TreeEnd:
    """How a stop of the tree went: ``left`` are processes that did not die."""

    exit_code: int | None
    killed: bool
    left: tuple[Process, ...]


class Tree:
    """The processes of one launch. Everything the engine forks is below its keeper, wherever it moved itself."""

    def __init__(self, keeper: KeeperHandle, marker: str, spec: LaunchSpec) -> None:
        self._keeper = keeper
        self._marker = marker
        self._variant = spec.variant
        self._port = spec.endpoint.port
        self._detaches = not spec.owns_process
        self._members: dict[Process, Member] = {}
        self._known: tuple[int, ...] = (keeper.engine_pid,)
        self._seen = {keeper.engine_pid}

    @classmethod
    async def start(cls, spec: LaunchSpec, marker: str, cwd: str | None, keeper: IdleKeeper) -> Tree:
        """Spawn the engine under a keeper, whose output stays the caller's.

        Raises LoadFailedError when its program cannot be started.
        """
        grace_s = min(spec.stop.grace_s, ORPHAN_GRACE_S)
        job = KeeperJob(list(spec.argv), child_env(spec.env, marker), cwd, grace_s, detaches=not spec.owns_process)
        return cls(await KeeperHandle.start(job, keeper.process, keeper.control), marker, spec)

    @property
    def seen(self) -> set[int]:
        """Every pid that a refresh found in the tree, dead ones too: a driver may still count memory to them."""
        return set(self._seen)

    @property
    def record(self) -> ChildRecord:
        """What the state file keeps, as of the last refresh."""
        return ChildRecord(self._marker, self._variant, self._port, tuple(self._members.values()))

    @property
    def pids(self) -> tuple[int, ...]:
        """Living processes now, the engine first, without its keeper; as last seen while we cannot look."""
        if self._keeper.empty.done():
            return ()
        try:
            found = processes.below([self._keeper.pid], processes.snapshot())
        except OSError:
            return self.known_pids
        self._known = self._engine_first(process.pid for process in found)
        return self._known

    @property
    def known_pids(self) -> tuple[int, ...]:
        """The same as of the last look, whoever took it; the engine alone before the first."""
        return () if self._keeper.empty.done() else self._known

    def _engine_first(self, pids: Iterable[int]) -> tuple[int, ...]:
        return tuple(sorted(pids, key=lambda pid: pid != self._keeper.engine_pid))

    def refresh(self) -> None:
        """Take in processes forked since, if we can look; called now and then, so that the state file knows them."""
        if self._keeper.empty.done():
            return
        try:
            everything = processes.snapshot()
        except OSError:
            return
        found = processes.below([self._keeper.pid], everything)
        self._known = self._engine_first(process.pid for process in found)
        if keeper := everything.get(self._keeper.pid):
            found.append(keeper)
        self._members = {process: self._members.get(process) or _member(process) for process in found}
        self._seen |= {process.pid for process in found}

    async def end(self, number: int, grace_s: float) -> TreeEnd:
        """Signal the tree, SIGKILL it after the grace, and wait until it is empty."""
        self.refresh()
        if not self._keeper.empty.done():
            self._keeper.stop(number, grace_s)
        try:
            async with asyncio.timeout(grace_s + KILL_S):
                await asyncio.shield(self._keeper.empty)
        except TimeoutError:  # in the kernel's hands (state D), or a keeper that hangs
            return TreeEnd(self._exit_code(), killed=True, left=await self.end_by_force())
        left = await self.end_by_force() if self._keeper.lost else ()
        return TreeEnd(self._exit_code(), killed=self._keeper.killed or self._keeper.lost, left=left)

    async def end_by_force(self) -> tuple[Process, ...]:
        """Without the keeper: by state record, marker, session and descent. Returns what would not die."""
        record = self.record

        def find() -> tuple[Process, ...]:
            return tuple(survivors([record], lambda marker: marker == self._marker))

        return tuple(await asyncio.to_thread(end_all, find, grace_s=0.0))

    def _exit_code(self) -> int | None:
        return self._keeper.exited.result() if self._keeper.exited.done() else None

    def hurry(self, grace_s: float) -> None:
        """Shorten the grace of a stop under way."""
        self._keeper.stop(signal.SIGTERM, grace_s)

    async def death(self) -> int | None:
        """Wait for the engine's own end; its exit code, None when its keeper was lost.

        A lost keeper takes the engine with it (parent-death signal), but not the engine's children: they are ended
        here. A program that may detach and exits with 0 has done so: this never returns then.
        """
        code = await asyncio.shield(self._keeper.exited)
        if code == 0 and self._detaches:
            await never()
        if self._keeper.lost:
            await self.end_by_force()
        return code

    async def close(self) -> None:
        """Let go of the keeper, which ends whatever is left."""
        await self._keeper.close()


def _member(process: Process) -> Member:
    return Member(process.pid, process.start, process.session, processes.command_line(process.pid))


def child_env(env: Mapping[str, str], marker: str) -> dict[str, str]:
    """The spec's environment and our marker; setproctitle (vLLM's workers) is told not to overwrite it."""
    return {**env, MARKER: marker, "SPT_NOENV": "1"}
