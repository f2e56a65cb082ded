"""The local launcher: starts engines on this box and owns what they share (ports, HTTP session, state file)."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp

from gearshift.domain.device import DeviceMemory
from gearshift.domain.errors import Failure, GearshiftError, StopIncompleteError
from gearshift.domain.launch import LaunchSpec
from gearshift.domain.paths import Paths, launch_folder
from gearshift.hardware import processes
from gearshift.supervisor import keeper
from gearshift.supervisor.child import Launch, LocalChild
from gearshift.supervisor.health import HealthClient
from gearshift.supervisor.keepers import SpareKeeper
from gearshift.supervisor.launch_log import LaunchLog, LogFile, new_log_path
from gearshift.supervisor.ports import PortPicker, port_free
from gearshift.supervisor.readiness import load_failed
from gearshift.supervisor.state_file import StateFile, marker_prefix, unusable_state
from gearshift.supervisor.stopping import MemoryWatch
from gearshift.supervisor.tree import Tree

REFRESH_S = 2.0  # how old the state file's view of the trees may be


def _unknown(_variant: str) -> int | None:
    return None


class LocalLauncher:
    """Implements `domain.launch.Launcher`. An async context: leaving it stops every child, verified."""

    def __init__(
        self,
        paths: Paths,
        memory: DeviceMemory,
        *,
        in_flight: Callable[[str], int | None] = _unknown,
    ) -> None:
        """``in_flight``: requests that a variant serves now, by its id, None = unknown; see `Liveness`."""
        self._paths = paths
        self._memory = memory
        self._in_flight = in_flight
        self._ports = PortPicker()
        self._spare_keeper = SpareKeeper()
        self._children: set[LocalChild] = set()
        self._state = StateFile(paths.children)
        self._dirty = asyncio.Event()
        self._session: aiohttp.ClientSession | None = None
        self._refreshing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Raises GearshiftError when the state folder cannot be written."""
        try:
            self._paths.logs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unusable_state(self._paths, error.strerror) from error
        if not self._state.write(()):
            raise unusable_state(self._paths, "its state file cannot be written")
        keeper.prctl(keeper.PR_SET_CHILD_SUBREAPER, 1)  # should a keeper be killed, its tree comes to us
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, force_close=True))
        self._refreshing = asyncio.create_task(self._refresh(), name="state file")
        self._spare_keeper.prepare()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raises StopIncompleteError naming everything that is left, when nothing else is being raised."""
        stops = await asyncio.gather(*(child.stop() for child in self._children), return_exceptions=True)
        await asyncio.to_thread(self._spare_keeper.close)
        if self._refreshing:
            self._refreshing.cancel()
            await asyncio.wait([self._refreshing])
        self._write()
        if self._session:
            await self._session.close()
        problems = [str(problem) for problem in stops if isinstance(problem, BaseException)]
        if problems and error is None:
            raise StopIncompleteError("; ".join(problems))

    def free_port(self) -> int:
        return self._ports.pick()

    async def launch(self, spec: LaunchSpec) -> LocalChild:
        began = time.monotonic()
        client = HealthClient(self._open_session(), spec)
        self._refuse_taken_port(spec)
        launch_id = uuid.uuid4().hex[:12]
        memory = await self._watched_memory(spec)
        log_path = new_log_path(self._paths.logs, spec.variant, launch_id)
        tree, output = await self._spawn(spec, marker_prefix(self._paths) + launch_id)
        log_grew = asyncio.Event()
        log = LaunchLog(output, LogFile(log_path), spec.log, _setting_from_thread(log_grew))
        spawn_s = time.monotonic() - began
        child = LocalChild(Launch(spec, tree, log, log_path, log_grew, client, memory, began, spawn_s), self)
        self._children.add(child)
        self.note_growth()
        return child

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            msg = "the launcher is used outside its context"
            raise RuntimeError(msg)
        return self._session

    async def _watched_memory(self, spec: LaunchSpec) -> MemoryWatch:
        """The devices' memory, read before anything of this launch can hold some."""
        memory = MemoryWatch(self._memory, spec.devices, deadline_s=spec.timing.memory_timeout_s)
        try:
            await memory.before_launch()
        except GearshiftError as error:
            raise load_failed(spec.variant, Failure(error.message, fix=error.hint)) from error
        return memory

    async def _spawn(self, spec: LaunchSpec, marker: str) -> tuple[Tree | None, int]:
        """The tree, and the descriptor that its output is read from."""
        if not spec.argv:
            return None, os.open(os.devnull, os.O_RDONLY)
        try:
            folder, keeper = write_files(self._paths.logs, spec), self._spare_keeper.take()
            try:
                return await Tree.start(spec, marker, folder, keeper), keeper.output
            except BaseException:
                os.close(keeper.output)
                raise
            finally:
                asyncio.get_running_loop().call_soon(self._spare_keeper.prepare)
        except (OSError, TimeoutError) as error:
            cause = f"{spec.argv[0]} cannot be started: {str(error) or 'its keeper did not answer'}"
            raise load_failed(spec.variant, Failure(cause)) from error

    def _refuse_taken_port(self, spec: LaunchSpec) -> None:
        if not (spec.argv and spec.owns_process):
            return
        port = spec.endpoint.port
        if port_free(spec.endpoint.host, port):  # the kernel's own answer; the whole socket table takes 20 ms to read
            return
        if who := processes.listener(port):
            cause = f"port {port} is already taken by {who}"
            raise load_failed(spec.variant, Failure(cause, fix="stop that server, or let Gearshift pick the port"))

    # -- what children ask and tell: `child.ChildOwner` --------------------------------------------------------------

    def in_flight(self, variant: str) -> int | None:
        return self._in_flight(variant)

    def pids(self) -> set[int]:
        return {pid for child in self._children for pid in child.pids}

    def note_growth(self) -> None:
        self._dirty.set()

    def forget(self, child: LocalChild) -> None:
        self._children.discard(child)
        self._dirty.set()

    # -- the state file --------------------------------------------------------------------------------------------

    async def _refresh(self) -> None:
        """Keeps the state file true, off the loop: a look at /proc and a write take milliseconds."""
        while True:
            try:
                async with asyncio.timeout(REFRESH_S):
                    await self._dirty.wait()
            except TimeoutError:
                pass
            self._dirty.clear()
            await asyncio.to_thread(self._write)

    def _write(self) -> None:
        trees = [child.tree for child in tuple(self._children) if child.tree]
        for tree in trees:
            tree.refresh()
        self._state.write(tree.record for tree in trees)


def _setting_from_thread(event: asyncio.Event) -> Callable[[], None]:
    """What sets an event of this loop from another thread; it does nothing once the loop is closed."""
    loop = asyncio.get_running_loop()

    def set_event() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(event.set)

    return set_event


def write_files(logs: Path, spec: LaunchSpec) -> str | None:
    """Write the spec's files into its launch folder; that folder as the engine's working one, None without files."""
    if not spec.files:
        return None
    folder = launch_folder(logs, spec.variant)
    for name, text in spec.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(folder)
