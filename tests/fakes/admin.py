"""A server's control, written by hand: does what the Admin contract says, at once or when a test lets it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from fakes.serving import until
from gearshift.domain.admin import Job, OperatorLease, ReloadReport, ServerEvent, ServerStatus
from gearshift.domain.errors import (
    Failure,
    GearshiftError,
    LoadFailedError,
    NotRunningError,
    UnknownIdError,
    UnknownModelError,
)
from gearshift.domain.leasing import State, VariantStatus
from gearshift.domain.provenance import EngineBuild, Gpu, GpuSettings, Hardware, Provenance, WeightFile

RUNNING: frozenset[State] = frozenset({"loading", "ready", "draining", "sleeping"})
STARTED = 1_790_000_000.0
PID = 2**22 + 1  # above the kernel's highest, so that no process has it


def stopped(variant: str, engine: str = "llama.cpp") -> VariantStatus:
    return VariantStatus(
        variant=variant, engine=engine, engine_version=None, state="stopped", pids=(), port=None, gpus=(),
        planned_bytes=None, measured_bytes=None, context=None, in_flight=0, queued=0, stage=None, since_s=None,
        unload_in_s=None, failure=None,
    )  # fmt: skip


def three_variants() -> list[VariantStatus]:
    """One ready, one stopped, one failed: what `ps` has to show."""
    return [
        replace(
            stopped("qwen:q8"), engine_version="b11434", state="ready", pids=(4100, 4101), port=41001, gpus=("GPU-a",),
            planned_bytes=30 * 1024**3, measured_bytes=31 * 1024**3, context=131072, in_flight=2, queued=1,
            since_s=61.5, unload_in_s=540.0,
        ),
        stopped("qwen:int4", "vllm"),
        replace(
            stopped("smol:q4"), state="failed", since_s=4.0,
            failure=Failure("the weights file is not a GGUF file", "E gguf_init: invalid magic", "download it again"),
        ),
    ]  # fmt: skip


def provenance(row: VariantStatus) -> Provenance:
    """What a server with one GPU tells of a variant."""
    settings = GpuSettings(max_clock_mhz=2100, max_memory_clock_mhz=9751, power_limit_w=350.0)
    return Provenance(
        gearshift="0.1.0",
        variant=row.variant,
        engine=EngineBuild(row.engine, row.engine_version, None),
        argv=("/opt/llama-server", "--model", "/models/q8.gguf", "--port", "PORT"),
        env={"CUDA_VISIBLE_DEVICES": "GPU-a"},
        weights=(WeightFile("/models/q8.gguf", 30 * 1024**3, None),),
        template_sha256="5e1f",
        hardware=Hardware((Gpu("Fake GPU", 24 * 1024**3, settings),), "580.95.05", "EPYC", None, None, 8, None, "6.12"),
    )


class FakeAdmin:
    """Holds rows, leases, jobs and events; ``hold_load`` keeps loads waiting until a test sets it."""

    def __init__(self, rows: Sequence[VariantStatus] = (), *, listen: str = "http://127.0.0.1:8888") -> None:
        self.rows = {row.variant: row for row in rows or three_variants()}
        self.listen = listen
        self.hold_load: threading.Event | None = None  # a thread's, because CLI tests set it from theirs
        self.load_error: GearshiftError | None = None
        self.cancelled_loads: list[str] = []
        self.reload_report = ReloadReport(applied=True, untouched=tuple(self.rows))
        self.log_paths: dict[str, Path] = {}
        self.past: list[ServerEvent] = []
        self.events_end = False
        self.subscribers = 0
        self.stopped = False
        self._leases: dict[str, OperatorLease] = {}
        self._jobs: dict[str, Job] = {}
        self._news = asyncio.Condition()

    def set_state(self, variant: str, state: State, stage: str | None = None) -> None:
        self.rows[variant] = replace(self._known(variant), state=state, stage=stage)

    def cancelled(self) -> list[str]:
        """The loads given up, waiting up to 5 s for the first: the server notices a client's end a little later."""
        deadline = time.monotonic() + 5
        while not self.cancelled_loads and time.monotonic() < deadline:
            time.sleep(0.005)
        return self.cancelled_loads

    async def happen(self, kind: str, **data: object) -> None:
        async with self._news:
            self.past.append(ServerEvent(len(self.past) + 1, STARTED + len(self.past), kind, data))
            self._news.notify_all()

    def status(self) -> ServerStatus:
        rows = tuple(self.rows.values())
        return ServerStatus("0.1.0", PID, STARTED, self.listen, Path("/etc/gearshift.yaml"), not self.stopped, rows)

    async def load(self, variant: str) -> None:
        self._known(variant)
        self.set_state(variant, "loading", "loading weights")
        try:
            if self.hold_load is not None:
                await until(self.hold_load.is_set)
        except asyncio.CancelledError:
            self.cancelled_loads.append(variant)
            raise
        if self.load_error is not None:
            failure = self.load_error.failure if isinstance(self.load_error, LoadFailedError) else None
            self.rows[variant] = replace(self.rows[variant], state="failed", stage=None, failure=failure)
            raise self.load_error
        self.set_state(variant, "ready")

    async def unload(self, variant: str) -> None:
        self._known(variant)
        self.rows[variant] = stopped(variant, self.rows[variant].engine)

    def log_path(self, variant: str) -> Path | None:
        return self.log_paths.get(variant)

    async def provenance(self, variant: str) -> Provenance:
        row = self._known(variant)
        if row.state not in RUNNING:
            msg = f"{variant} is {row.state}, and only a running variant shows what it is"
            raise NotRunningError(msg, hint=f"load it first: gearshift load {variant}")
        return provenance(row)

    async def reload(self) -> ReloadReport:
        return self.reload_report

    async def take_lease(self, variant: str, *, exclusive: bool, ttl_s: float) -> OperatorLease:
        await self.load(variant)
        lease = OperatorLease(
            f"lease-{len(self._leases) + 1}", variant, exclusive, ttl_s, STARTED + ttl_s, "http://127.0.0.1:41001"
        )
        self._leases[lease.id] = lease
        return lease

    def renew_lease(self, lease_id: str, *, ttl_s: float | None = None) -> OperatorLease:
        lease = self._lease(lease_id)
        ttl = ttl_s or lease.ttl_s
        self._leases[lease_id] = replace(lease, ttl_s=ttl, expires=lease.expires + ttl)
        return self._leases[lease_id]

    def end_lease(self, lease_id: str) -> None:
        del self._leases[self._lease(lease_id).id]

    def leases(self) -> Sequence[OperatorLease]:
        return tuple(self._leases.values())

    def start_job(self, argv: Sequence[str]) -> Job:
        job = Job(
            f"job-{len(self._jobs) + 1}", tuple(argv), "running", STARTED, None, None, Path("/nonexistent/job.log")
        )
        self._jobs[job.id] = job
        return job

    def job_log(self, job_id: str, path: Path) -> Path:
        self._jobs[job_id] = replace(self._jobs[job_id], log=path)
        return path

    def cancel_job(self, job_id: str, *, ended: bool = True) -> Job:
        job = replace(self._jobs[job_id], state="cancelled")
        self._jobs[job_id] = replace(job, ended=STARTED + 1, exit_code=143) if ended else job
        return self._jobs[job_id]

    def jobs(self) -> Sequence[Job]:
        return tuple(self._jobs.values())

    @asynccontextmanager
    async def events(self, *, after: int | None = None) -> AsyncIterator[AsyncIterator[ServerEvent]]:
        self.subscribers += 1
        try:
            yield self._stream(after if after is not None else len(self.past))
        finally:
            self.subscribers -= 1

    async def _stream(self, after: int) -> AsyncIterator[ServerEvent]:
        position = after
        while True:
            for event in self.past[position:]:
                position = event.id
                yield event
            if self.events_end:
                return
            async with self._news:
                while len(self.past) <= position:
                    await self._news.wait()

    def shutdown(self) -> None:
        self.stopped = True

    def _known(self, variant: str) -> VariantStatus:
        if variant not in self.rows:
            msg = f"there is no variant {variant!r}"
            raise UnknownModelError(msg, hint="known: " + ", ".join(self.rows))
        return self.rows[variant]

    def _lease(self, lease_id: str) -> OperatorLease:
        if lease_id not in self._leases:
            msg = f"there is no lease {lease_id!r}"
            raise UnknownIdError(msg)
        return self._leases[lease_id]
