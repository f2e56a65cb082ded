"""Every operation of the admin API, one row each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter

from gearshift.domain.admin import Job, OperatorLease, ReloadReport, ServerStatus
from gearshift.domain.leasing import VariantStatus
from gearshift.domain.provenance import Provenance
from gearshift.web import jobs, leases, server, variants
from gearshift.web.bodies import (
    EventQuery,
    HoldQuery,
    JobRequest,
    LeaseRequest,
    LogQuery,
    NoQuery,
    Nothing,
    RenewRequest,
)
from gearshift.web.operations import Operation
from gearshift.web.streams import EVENT_STREAM

PREFIX = "/api/v1"
TEXT = "text/plain"
_STATUS = TypeAdapter(ServerStatus)
_ROW, _ROWS = TypeAdapter(VariantStatus), TypeAdapter(Sequence[VariantStatus])
_PROVENANCE = TypeAdapter(Provenance)
_RELOAD = TypeAdapter(ReloadReport)
_LEASE, _LEASES = TypeAdapter(OperatorLease), TypeAdapter(Sequence[OperatorLease])
_JOB, _JOBS = TypeAdapter(Job), TypeAdapter(Sequence[Job])
_BUSY = (404, 429, 503)

# ``{variant:path}`` because a model's name may hold slashes; the longer routes therefore come first.
TABLE: tuple[Operation[Any, Any], ...] = (
    Operation("GET", "/status", "The server and every variant", server.status, NoQuery, Nothing, _STATUS),
    Operation("GET", "/variants", "Every variant, as `ps --json` prints it", variants.rows, NoQuery, Nothing, _ROWS),
    Operation(
        "GET", "/variants/{variant:path}/logs", "The newest launch's log", variants.logs, LogQuery, Nothing,
        media_type=TEXT, errors=(404,),
    ),
    Operation(
        "GET", "/variants/{variant:path}/provenance", "What makes the running variant the same again",
        variants.provenance, NoQuery, Nothing, _PROVENANCE, errors=(404, 409),
    ),
    Operation(
        "POST", "/variants/{variant:path}/load", "Make it resident; answers when it is ready", variants.load,
        NoQuery, Nothing, _ROW, errors=_BUSY,
    ),
    Operation(
        "POST", "/variants/{variant:path}/unload", "Drain and stop it; answers when it is stopped and verified",
        variants.unload, NoQuery, Nothing, _ROW, errors=(404, 503),
    ),
    Operation(
        "GET", "/variants/{variant:path}", "One variant", variants.row, NoQuery, Nothing, _ROW, errors=(404,)
    ),
    Operation(
        "POST", "/reload", "Read the configuration again and apply what changed", server.reload, NoQuery, Nothing,
        _RELOAD,
    ),
    Operation("GET", "/leases", "Leases held through this API", leases.listed, NoQuery, Nothing, _LEASES),
    Operation(
        "POST", "/leases", "Keep a variant resident", leases.take, HoldQuery, LeaseRequest, _LEASE,
        status=201, errors=_BUSY,
    ),
    Operation("GET", "/leases/{lease_id}", "One lease", leases.one, NoQuery, Nothing, _LEASE, errors=(404,)),
    Operation("PUT", "/leases/{lease_id}", "Renew it", leases.renew, NoQuery, RenewRequest, _LEASE, errors=(404,)),
    Operation(
        "DELETE", "/leases/{lease_id}", "End it", leases.end, NoQuery, Nothing, status=204, errors=(404,)
    ),
    Operation("GET", "/jobs", "Jobs of this server's life", jobs.listed, NoQuery, Nothing, _JOBS),
    Operation("POST", "/jobs", "Start a job", jobs.start, NoQuery, JobRequest, _JOB, status=201, errors=(503,)),
    Operation(
        "GET", "/jobs/{job_id}/logs", "A job's output", jobs.logs, LogQuery, Nothing, media_type=TEXT, errors=(404,)
    ),
    Operation("GET", "/jobs/{job_id}", "One job", jobs.one, NoQuery, Nothing, _JOB, errors=(404,)),
    Operation("DELETE", "/jobs/{job_id}", "Cancel it", jobs.cancel, NoQuery, Nothing, _JOB, errors=(404,)),
    Operation(
        "GET", "/events", "What happens, as server-sent events", server.events, EventQuery, Nothing,
        media_type=EVENT_STREAM,
    ),
    Operation(
        "POST", "/shutdown", "Drain, stop every engine and end", server.shutdown, NoQuery, Nothing, status=202
    ),
)  # fmt: skip
