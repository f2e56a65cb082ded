"""Jobs: long work such as a benchmark, run as a child process of the server."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.responses import Response

from gearshift.domain.admin import Admin, Job
from gearshift.domain.errors import DrainingError, GearshiftError
from gearshift.edge.errors import RefusedError
from gearshift.web.bodies import JobRequest, LogQuery, NoQuery, Nothing
from gearshift.web.errors import not_found
from gearshift.web.operations import Call
from gearshift.web.variants import log_response


def _job(admin: Admin, job_id: str) -> Job:
    found = next((job for job in admin.jobs() if job.id == job_id), None)
    if found is None:
        raise not_found(job_id, what="job")
    return found


async def listed(admin: Admin, _: Call[NoQuery, Nothing]) -> Sequence[Job]:
    """Every job of this server's life, ended ones too."""
    return admin.jobs()


async def one(admin: Admin, call: Call[NoQuery, Nothing]) -> Job:
    """One job by id."""
    return _job(admin, call.name)


async def start(admin: Admin, call: Call[NoQuery, JobRequest]) -> Job:
    """Starts it and returns at once. Raises RefusedError for a verb that is no job."""
    try:
        return admin.start_job(call.body.argv)
    except DrainingError:
        raise
    except GearshiftError as error:
        raise RefusedError(400, "job_refused", error.message, param="body.argv", hint=error.hint) from error


async def cancel(admin: Admin, call: Call[NoQuery, Nothing]) -> Job:
    """The job, cancelled; one that has ended stays as it is."""
    return admin.cancel_job(_job(admin, call.name).id)


async def logs(admin: Admin, call: Call[LogQuery, Nothing]) -> Response:
    """Its standard output and error as text; following ends with the job."""
    job = _job(admin, call.name)

    def ended() -> bool:
        """A cancelled job still says what it kept, and one that was forgotten has long ended."""
        now = next((one for one in admin.jobs() if one.id == job.id), None)
        return now is None or now.ended is not None

    return await log_response(lambda: job.log, call.query, ended=ended)
