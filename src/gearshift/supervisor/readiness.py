"""From spawn to ready: health, whose port it is, one token; or the first reason why not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import NoReturn

from gearshift.domain.errors import Failure, LoadFailedError
from gearshift.domain.launch import LaunchSpec, ReadyReport
from gearshift.hardware import processes
from gearshift.hardware.processes import Activity
from gearshift.supervisor.exits import cause_of_death
from gearshift.supervisor.health import HealthClient, ProbeResult
from gearshift.supervisor.launch_log import LaunchLog
from gearshift.supervisor.racing import first_of, never

FASTEST_POLL_S, SLOWEST_POLL_S = 0.005, 0.25
POLL_SHARE = 0.05  # of the time waited so far: readiness is seen at most 5 % late
LINE_PAUSE_S = 0.02  # a new log line asks for a look at once, but not more often than this
STALL_LOOKS = 8  # within a stall deadline
# Less than this is no progress: our own health polls cost an idle engine some CPU time.
STALL_CPU_SHARE, STALL_CPU_S, STALL_IO_BYTES = 0.05, 0.03, 1 << 20


class Readiness:
    """One load, watched: `wait` returns once the engine gave a token, or raises LoadFailedError. It stops nothing."""

    def __init__(
        self,
        spec: LaunchSpec,
        client: HealthClient,
        log: LaunchLog,
        pids: Callable[[], Collection[int]],
        log_grew: asyncio.Event,
    ) -> None:
        """``pids`` are the tree's processes now, none for an engine outside; ``log_grew`` is set at each new line."""
        self._spec = spec
        self._client = client
        self._log = log
        self._pids = pids
        self._log_grew = log_grew

    async def wait(
        self, began: float, spawn_s: float, death: Callable[[], Awaitable[int | None]] | None
    ) -> ReadyReport:
        """``began`` is the launch on the monotonic clock, ``spawn_s`` what the spawn took of it.

        ``death`` waits for the engine's exit code; None where no process of ours tells.
        """
        timing = self._spec.timing
        waits = [self._answers(began, spawn_s), self._stalls()]
        try:
            async with asyncio.timeout(timing.load_timeout_s):
                return await first_of(*waits, *([self._dies(death)] if death else []))
        except TimeoutError:
            stage = self._log.report.stage
            cause = f"not ready within load_timeout ({timing.load_timeout_s:g} s); last stage: {stage}"
            raise self._failed(cause, fix="raise load_timeout, or read the log for what it waits for") from None

    async def _answers(self, began: float, spawn_s: float) -> ReadyReport:
        await self._healthy(began)
        health_s = time.monotonic() - began
        await self._check_owner(began)
        await self._prove(began)
        total_s = time.monotonic() - began
        return ReadyReport(spawn_s=spawn_s, health_s=health_s, probe_s=total_s - health_s, total_s=total_s)

    async def _healthy(self, began: float) -> None:
        while not (await self._client.health()).ok:
            await self._pause(began)

    async def _pause(self, began: float) -> None:
        """Until the next look: soon after a new log line, else a share of the time waited so far."""
        delay = min(max(POLL_SHARE * (time.monotonic() - began), FASTEST_POLL_S), SLOWEST_POLL_S)
        self._log_grew.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self._log_grew.wait()
                await asyncio.sleep(LINE_PAUSE_S)

    async def _check_owner(self, began: float) -> None:
        """A good answer counts only from a process of our own tree: another server may hold the port.

        A listener is foreign only if two looks in a row find it. An engine that dies right after its answer has let go
        of its port, or is about to; it must not pass for a foreign server, since `_dies` knows the cause of its death.
        """
        port = self._spec.endpoint.port
        before: frozenset[str] = frozenset()
        while (
            self._spec.owns_process
            and processes.holder_of(now := processes.listening_inodes(port), self._pids()) is None
        ):
            if now & before:
                raise self._failed(foreign_port(port), fix="stop that server, or leave the port to Gearshift")
            before = now
            await self._pause(began)

    async def _prove(self, began: float) -> None:
        """One token. Without a health answer before it, "not yet" is asked again until the load's deadline."""
        while True:
            answer = await self._client.probe(self._spec.timing.probe_timeout_s)
            if answer.ok:
                return
            if not answer.retry:
                raise self._unproven(answer)
            await self._pause(began)

    def _unproven(self, answer: ProbeResult) -> LoadFailedError:
        kind = self._spec.probe.kind
        fix = (
            f"if this model is no {kind} model, set `probe:` to the kind it is"
            if "answered 4" in answer.problem
            else None
        )
        return self._failed(f"it is up but failed its {kind} probe: {answer.problem}", fix=fix)

    async def _dies(self, death: Callable[[], Awaitable[int | None]]) -> NoReturn:
        raise load_failed(self._spec.variant, await exit_failure(self._log, await death()))

    async def _stalls(self) -> NoReturn:
        """Raises when neither a log line nor CPU time nor storage traffic was seen for the stall deadline."""
        limit = self._spec.timing.stall_timeout_s if self._spec.owns_process else None  # elsewhere we see no work
        if limit is None:
            await never()
        mark, marked_at = self._activity(), time.monotonic()
        while True:
            await asyncio.sleep(limit / STALL_LOOKS)
            now = self._activity()
            if _progress(mark, now, time.monotonic() - marked_at):
                mark, marked_at = now, time.monotonic()
            silent_s = time.monotonic() - max(marked_at, self._log.last_line_at)
            if silent_s >= limit:
                stage = self._log.report.stage
                raise self._failed(
                    f"its load stalled: no log line and no work for {silent_s:.0f} s; last stage: {stage}",
                    fix="read the log for what it waits for, or raise stall_timeout",
                )

    def _activity(self) -> Activity:
        """Where we cannot look, a reading below all others: it counts as progress, so no load is ended on a guess."""
        try:
            return processes.activity(self._pids())
        except OSError:
            return Activity(-1.0, 0)

    def _failed(self, cause: str, *, fix: str | None) -> LoadFailedError:
        """The log's own root cause goes first where it has one: it explains a probe that fails as well."""
        known = self._log.report.failure
        return load_failed(
            self._spec.variant, known or Failure(cause, line=next(iter(self._log.tail[-1:]), None), fix=fix)
        )


def _progress(mark: Activity, now: Activity, elapsed_s: float) -> bool:
    cpu_s = now.cpu_s - mark.cpu_s
    worked = cpu_s >= STALL_CPU_S and cpu_s >= STALL_CPU_SHARE * elapsed_s
    return worked or now.io_bytes - mark.io_bytes >= STALL_IO_BYTES or now.cpu_s < mark.cpu_s  # a worker ended


def load_failed(variant: str, failure: Failure) -> LoadFailedError:
    """The error that a waiter for this variant gets."""
    return LoadFailedError(f"{variant} could not be loaded: {failure.cause}", failure=failure)


async def exit_failure(log: LaunchLog, code: int | None, patience_s: float = 2.0) -> Failure:
    """Why an engine died. Its last lines may still be on their way, so the log's end is awaited, but not for long."""
    await asyncio.to_thread(log.finished.wait, patience_s)
    return cause_of_death(log.report.failure, code, log.tail)


def foreign_port(port: int) -> str:
    """Who answers on a port that should be our engine's."""
    return f"port {port} is answered by {processes.listener(port) or processes.UNSEEN}, not by the engine"
