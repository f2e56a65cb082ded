"""`domain.admin.Admin` over the control loop: what the admin API and the CLI may ask of a running server."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from gearshift.advice.provenance import ProvenanceReader
from gearshift.control.jobs import Jobs
from gearshift.control.loop import Control
from gearshift.control.operator_leases import OperatorLeases
from gearshift.control.provenance import PublicProvenance
from gearshift.control.reloading import Reloading
from gearshift.domain.admin import Job, OperatorLease, ReloadReport, ServerEvent, ServerStatus
from gearshift.domain.errors import DrainingError, NotRunningError, StopIncompleteError
from gearshift.domain.leasing import VariantStatus
from gearshift.domain.provenance import Provenance
from gearshift.scheduler import Phase


class ServerAdmin:
    """One server's admin. ``stop`` is called once when an operator asks for the end."""

    def __init__(
        self,
        control: Control,
        *,
        reloading: Reloading,
        jobs: Jobs,
        provenance: ProvenanceReader,
        listen: str,
        stop: Callable[[], None],
    ) -> None:
        self._control = control
        self._reloading = reloading
        self._jobs = jobs
        self._provenance = PublicProvenance(provenance)
        self._version = provenance.version
        self._listen = listen
        self._stop = stop
        self._started = time.time()
        self._leases = OperatorLeases(control)
        self._accepting = True

    def status(self) -> ServerStatus:
        return ServerStatus(
            version=self._version,
            pid=os.getpid(),
            started=self._started,
            listen=self._listen,
            config=self._reloading.file,
            accepting=self._accepting,
            variants=self._control.statuses(),
        )

    async def load(self, variant: str) -> None:
        ticket = self._control.request(self._known(variant), insist=True)
        try:
            lease = await ticket.wait()
        finally:
            ticket.leave()  # gives back a lease granted meanwhile, too
        if lease is not None:
            lease.release()

    async def unload(self, variant: str) -> None:
        known = self._known(variant)
        phase = await self._control.unload(known)
        if phase is Phase.FAILED and (row := self._row(known)) and row.failure:
            raise StopIncompleteError(f"{known} is not gone: {row.failure.cause}", hint=row.failure.fix)

    def log_path(self, variant: str) -> Path | None:
        return self._control.log_path(self._known(variant))

    async def provenance(self, variant: str) -> Provenance:
        known = self._known(variant)
        running = self._control.running(known)
        if running is None:
            msg = f"{known} is {self._control.phase(known) or 'unknown'}, and only a running variant shows what it is"
            raise NotRunningError(msg, hint=f"load it first: gearshift load {known}")
        return await self._provenance.of(running)

    async def reload(self) -> ReloadReport:
        return await self._reloading.reload()

    async def take_lease(self, variant: str, *, exclusive: bool, ttl_s: float) -> OperatorLease:
        return await self._leases.take(self._known(variant), exclusive=exclusive, ttl_s=ttl_s)

    def renew_lease(self, lease_id: str, *, ttl_s: float | None = None) -> OperatorLease:
        return self._leases.renew(lease_id, ttl_s)

    def end_lease(self, lease_id: str) -> None:
        self._leases.end(lease_id)

    def leases(self) -> Sequence[OperatorLease]:
        return self._leases.all()

    def start_job(self, argv: Sequence[str]) -> Job:
        if not self._accepting:
            raise DrainingError("the server is stopping and starts no more jobs")
        return self._jobs.start(argv)

    def cancel_job(self, job_id: str) -> Job:
        return self._jobs.cancel(job_id)

    def jobs(self) -> Sequence[Job]:
        return self._jobs.all()

    def events(self, *, after: int | None = None) -> AbstractAsyncContextManager[AsyncIterator[ServerEvent]]:
        return self._control.journal.follow(after)

    def shutdown(self) -> None:
        self._accepting = False
        self._stop()

    async def close(self) -> None:
        """End leases and jobs; the control loop is closed after this."""
        self._accepting = False
        self._leases.close()
        await self._jobs.close()

    def _known(self, variant: str) -> str:
        """An exact variant id, or what the name routes to. Raises UnknownModelError."""
        return self._control.resolve(variant).variant.id

    def _row(self, variant: str) -> VariantStatus | None:
        return next((row for row in self._control.statuses() if row.variant == variant), None)
