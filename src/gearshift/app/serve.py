"""`gearshift serve`: put every room together, run until asked to end, leave nothing behind."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import structlog
import uvloop

import gearshift
from gearshift.advice.calibrations import Calibrations
from gearshift.advice.check import check_config
from gearshift.advice.provenance import ProvenanceReader
from gearshift.app.faces import Faces
from gearshift.app.limits import raise_open_files
from gearshift.app.listeners import AdminSocket, bind_tcp, serving
from gearshift.app.logs import logs
from gearshift.app.notify import notify
from gearshift.app.request_log import RequestLog
from gearshift.artifacts import read_model
from gearshift.config import LoadedConfig, listen_on, load_config
from gearshift.control import (
    Control,
    Dependencies,
    Jobs,
    Journal,
    Lessons,
    Lookups,
    Preparation,
    Reloading,
    ServerAdmin,
)
from gearshift.domain.device import Device
from gearshift.domain.errors import ConfigError, GearshiftError
from gearshift.domain.paths import Paths, resolve_paths
from gearshift.domain.records import Sink
from gearshift.domain.settings import Settings
from gearshift.gateway import Fanout, Tally, create_gateway, uvicorn_config
from gearshift.hardware import host_memory, open_memory
from gearshift.store import open_store
from gearshift.supervisor import LocalLauncher, StateLock, reap_orphans
from gearshift.toolchain import Toolchain
from gearshift.web import create_admin

log = structlog.get_logger(__name__)

DRAIN_S = 10.0  # what open streams get when the server is asked to end; a second signal ends them at once
LOCK_CHECK_S = 5.0  # between two looks at whether the state folder is still ours
SLEEP_RAM_SHARE = 0.5  # of the memory free at start, for variants asleep at level 1 without a budget of their own


def serve(config: Path, *, env: Mapping[str, str], listen: str | None = None, verbose: bool = False) -> None:
    """Serve ``config`` until SIGTERM, SIGINT or an operator ends it; returns once every engine is gone.

    ``verbose`` logs a line for every request as well. Raises GearshiftError (ConfigError with every problem) when it
    cannot start.
    """
    with logs(verbose=verbose):
        loaded = _load(config, env, listen)
        raise_open_files()
        uvloop.run(_serve(loaded, config, dict(env), listen))


def _load(config: Path, env: Mapping[str, str], listen: str | None) -> LoadedConfig:
    """The configuration, held against this box's engines and GPUs. Raises ConfigError with every problem."""
    loaded = load_config(config, env)
    toolchain = Toolchain(resolve_paths(env), env)
    devices = open_memory(env).devices()
    problems = check_config(loaded, find_engine=toolchain.find, strict=False, devices=devices)
    if any(problem.severity == "error" for problem in problems):
        raise ConfigError(problems)
    settings = listen_on(loaded.settings, listen) if listen else loaded.settings
    return replace(loaded, settings=settings, warnings=problems)


async def _serve(loaded: LoadedConfig, config: Path, env: dict[str, str], listen: str | None) -> None:
    paths = resolve_paths(env)
    async with AsyncExitStack() as stack:
        lock = stack.enter_context(StateLock(paths))
        watch = asyncio.create_task(_tell_when_lost(lock, paths), name="state folder")
        stack.callback(watch.cancel)
        for reaped in await asyncio.to_thread(reap_orphans, paths):
            log.warning("ended what a killed Gearshift left running", process=str(reaped))
        await Server(loaded, config, paths, env, listen).run(stack)


async def _tell_when_lost(lock: StateLock, paths: Paths) -> None:
    """Say once that the state folder is lost: what we could write there again is not what others look for."""
    while not await asyncio.to_thread(lambda: lock.lost):  # noqa: ASYNC110 - no event tells of it on every file system
        await asyncio.sleep(LOCK_CHECK_S)
    log.error(
        "the state folder was removed or replaced while serving",
        folder=str(paths.state),
        fix="restart Gearshift; until then requests are served, but the command line does not reach it",
    )


class Server:
    """One life of the server: its parts in the order in which they are made, and ended in reverse."""

    def __init__(
        self, loaded: LoadedConfig, config: Path, paths: Paths, env: dict[str, str], listen: str | None
    ) -> None:
        self._loaded = loaded
        self._config = config
        self._paths = paths
        self._env = env
        self._listen = listen
        self._ending = asyncio.Event()
        self._hurry = asyncio.Event()
        self._devices: tuple[Device, ...] = ()
        self._broker: Control | None = None
        self._reloading: Reloading | None = None
        self._admin_socket: AdminSocket | None = None
        self._tally = Tally()

    async def run(self, stack: AsyncExitStack) -> None:
        """Open everything, wait for the end, close everything; each part closes what it opened."""
        settings = self._loaded.settings
        self._signals()  # first: from now on no signal may end us without our stopping what we started
        for warning in self._loaded.warnings:
            log.warning("config", problem=str(warning))
        listener = bind_tcp(settings.host, settings.port)
        stack.callback(listener.close)
        sink = open_store(self._paths.database).sink()
        stack.callback(sink.close)
        control, self._reloading = await self._open_control(stack, settings, sink)
        admin = self._admin(control, self._reloading, listener)
        await self._open_faces(stack, control, admin, listener, sink)
        self._preload(control, settings)
        notify(self._env, "READY=1")
        log.info("serving", listen=_url(listener), variants=len(settings.variants()), config=str(self._config))
        await self._ending.wait()
        notify(self._env, "STOPPING=1")
        log.info("stopping", drain_s=DRAIN_S)
        await admin.close()
        await self._close(control)

    async def _open_control(self, stack: AsyncExitStack, settings: Settings, sink: Sink) -> tuple[Control, Reloading]:
        memory = open_memory(self._env, budget_bytes=settings.memory_bytes)
        self._devices = memory.devices()
        launcher = await stack.enter_async_context(LocalLauncher(self._paths, memory, in_flight=self._in_flight))
        toolchain = Toolchain(self._paths, self._env)
        calibrations = Calibrations(self._paths.calibrations)
        preparation = Preparation(
            Lookups(toolchain.find, read_model, calibrations.of),
            devices=self._devices,
            env=self._env,
            logs=self._paths.logs,
            sleep_ram=int(host_memory().available_bytes * SLEEP_RAM_SHARE),
        )
        world = await asyncio.to_thread(preparation.world, settings)
        journal = Journal()
        lessons = Lessons(memory, preparation, calibrations, journal)
        dependencies = Dependencies(launcher, preparation, lessons, Fanout(sink, self._tally), journal)
        control = Control(settings, world, dependencies)
        self._broker = control
        reloading = Reloading(control, preparation, self._config, lambda: _load(self._config, self._env, self._listen))
        return control, reloading

    def _in_flight(self, variant: str) -> int | None:
        """Asked by the supervisor, which is made first: it tells a hung engine from a busy one."""
        return self._broker.in_flight(variant) if self._broker else None

    def _admin(self, control: Control, reloading: Reloading, listener: socket.socket) -> ServerAdmin:
        jobs = Jobs(
            self._paths.state / "jobs", self._env, lambda job: control.journal.add("job", id=job.id, state=job.state)
        )
        return ServerAdmin(
            control,
            reloading=reloading,
            jobs=jobs,
            provenance=ProvenanceReader(gearshift.__version__, self._devices, self._config),
            listen=_url(listener),
            stop=self._ending.set,
        )

    async def _open_faces(
        self, stack: AsyncExitStack, control: Control, admin: ServerAdmin, listener: socket.socket, sink: Sink
    ) -> None:
        gateway = create_gateway(control, lambda: control.settings, RequestLog(sink), tally=self._tally)
        remote = create_admin(admin, lambda: control.settings, remote=True)
        local = create_admin(admin, lambda: control.settings, remote=False)
        # The admin socket first: whoever sees the port answer may send SIGHUP, and a reload looks after this socket.
        admin_socket = AdminSocket(self._paths.admin_socket, lambda: uvicorn_config(local, control.settings))
        self._admin_socket = await stack.enter_async_context(admin_socket)
        await stack.enter_async_context(serving(uvicorn_config(Faces(gateway, remote), control.settings), listener))

    def _signals(self) -> None:
        loop = asyncio.get_running_loop()
        reloads: set[asyncio.Task[None]] = set()

        def end() -> None:
            (self._hurry if self._ending.is_set() else self._ending).set()

        def reload() -> None:
            if self._reloading is None or self._admin_socket is None or self._ending.is_set():
                return  # still starting, from the file as it is, or ending
            task = loop.create_task(_reload(self._reloading, self._admin_socket, self._env), name="reload")
            reloads.add(task)
            task.add_done_callback(reloads.discard)

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, end)
        loop.add_signal_handler(signal.SIGHUP, reload)

    def _preload(self, control: Control, settings: Settings) -> None:
        """Load what should be resident from the start; a failure is told like any other and serving goes on."""
        for name in settings.preload:
            control.preload(name)

    async def _close(self, control: Control) -> None:
        """Drain and stop every engine; a second signal cuts the draining short."""
        closing = asyncio.create_task(control.close(drain_s=DRAIN_S))
        hurry = asyncio.create_task(self._hurry.wait())
        await asyncio.wait({closing, hurry}, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        if not closing.done():
            control.hurry()
        await closing


async def _reload(reloading: Reloading, admin_socket: AdminSocket, env: Mapping[str, str]) -> None:
    notify(env, "RELOADING=1")
    await _restore(admin_socket)
    report = await reloading.reload()
    for problem in report.problems:
        log.warning("reload", problem=str(problem))
    log.info("reloaded" if report.applied else "reload refused, nothing changed", changed=list(report.changed))
    notify(env, "READY=1")


async def _restore(admin_socket: AdminSocket) -> None:
    try:
        if await admin_socket.restore():
            log.warning("the admin socket was gone and was made again")
    except GearshiftError as error:
        log.warning("admin socket", problem=str(error))


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
