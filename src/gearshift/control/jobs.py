"""Long work as child processes, so that a load generator never shares the gateway's loop."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gearshift.domain.admin import Job, JobState
from gearshift.domain.errors import GearshiftError, LoadFailedError, UnknownIdError
from gearshift.supervisor import KeeperHandle, start_bound

JOB_VERBS = frozenset({"bench", "engine", "plan", "doctor", "pull", "verify", "report"})
KEPT = 50  # finished jobs remembered
KILL_AFTER_S = 10.0  # what a job gets to end by when the server ends
CANCELLED_S = 3600.0  # what a cancelled one gets: a benchmark finishes its request and stores what it has


class Jobs:
    """Starts `gearshift VERB …` children, each under a keeper: they end with the server, whatever ends it."""

    def __init__(self, folder: Path, env: Mapping[str, str], changed: Callable[[Job], None]) -> None:
        self._folder = folder
        self._env = dict(env)
        self._changed = changed
        self._jobs: dict[str, Job] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._keepers: dict[str, KeeperHandle] = {}

    def all(self) -> tuple[Job, ...]:
        return tuple(self._jobs.values())

    def start(self, argv: Sequence[str]) -> Job:
        """Start one. Raises GearshiftError when its verb is not one that may run as a job."""
        if not argv or argv[0] not in JOB_VERBS:
            first = argv[0] if argv else ""
            raise GearshiftError(f"{first!r} cannot run as a job", hint=f"jobs are: {', '.join(sorted(JOB_VERBS))}")
        job_id = secrets.token_hex(4)
        log = self._folder / f"{job_id}.log"
        job = Job(job_id, tuple(argv), "running", time.time(), None, None, log)
        self._keep(job)
        self._running[job_id] = asyncio.create_task(self._run(job), name=f"job {job_id}")
        return job

    def cancel(self, job_id: str) -> Job:
        """Ask a running job to end (SIGINT: a benchmark keeps what it has). Raises UnknownIdError."""
        job = self._jobs.get(job_id)
        if job is None:
            raise UnknownIdError(f"there is no job {job_id!r}", hint="GET /api/v1/jobs lists them")
        if job.state == "running":
            self._keep(replace(job, state="cancelled"))
            self._stop(job_id, CANCELLED_S)
        return self._jobs[job_id]

    async def close(self) -> None:
        """End every running job, by force after a while."""
        for job in self.all():
            if job.state == "running":
                self.cancel(job.id)
        if self._running:
            _, late = await asyncio.wait(self._running.values(), timeout=KILL_AFTER_S)
            for job_id in list(self._running) if late else ():
                self._stop(job_id, 0)
            await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def _run(self, job: Job) -> None:
        code: int | None = None
        try:
            code = await self._ended(job)
        except (OSError, LoadFailedError) as error:
            with contextlib.suppress(OSError):
                job.log.write_text(f"the job could not be started: {error}\n")
        finally:
            self._running.pop(job.id, None)
            self._keep(replace(job, state=self._outcome(job.id, code), ended=time.time(), exit_code=code))

    async def _ended(self, job: Job) -> int | None:
        """Run it to its end, and what it started with it. Raises OSError, LoadFailedError."""
        self._folder.mkdir(parents=True, exist_ok=True)
        argv = (sys.executable, "-m", "gearshift", *job.argv)
        with job.log.open("ab") as log:
            keeper = await start_bound(argv, self._env, log.fileno(), grace_s=KILL_AFTER_S)
        self._keepers[job.id] = keeper
        try:
            if self._jobs[job.id].state == "cancelled":  # while it was being started
                self._stop(job.id, CANCELLED_S)
            await keeper.empty
            return await keeper.exited
        finally:
            del self._keepers[job.id]
            await keeper.close()

    def _outcome(self, job_id: str, code: int | None) -> JobState:
        if self._jobs[job_id].state == "cancelled":
            return "cancelled"
        return "done" if code == 0 else "failed"

    def _stop(self, job_id: str, grace_s: float) -> None:
        keeper = self._keepers.get(job_id)
        if keeper is not None:
            keeper.stop(signal.SIGINT, grace_s)

    def _keep(self, job: Job) -> None:
        self._jobs[job.id] = job
        over = [kept.id for kept in self._jobs.values() if kept.ended is not None]  # a cancelled one may still run
        for job_id in over[:-KEPT]:
            del self._jobs[job_id]
        self._changed(job)
