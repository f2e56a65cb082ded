"""The server as a whole: status, reload, events, shutdown."""

from __future__ import annotations

from starlette.responses import Response

from gearshift.domain.admin import Admin, ReloadReport, ServerStatus
from gearshift.domain.errors import ConfigError
from gearshift.edge.errors import RefusedError
from gearshift.web.bodies import EventQuery, NoQuery, Nothing
from gearshift.web.errors import broken_config
from gearshift.web.operations import Call
from gearshift.web.streams import EVENT_STREAM, event_stream, streaming

_LONGEST_ID = 18  # digits; keeps int() from being handed a novel


async def status(admin: Admin, _: Call[NoQuery, Nothing]) -> ServerStatus:
    """The server and its variants."""
    return admin.status()


async def reload(admin: Admin, _: Call[NoQuery, Nothing]) -> ReloadReport:
    """What changed. Raises RefusedError when the file is invalid, in which case nothing did."""
    report = await admin.reload()
    if not report.applied and report.problems:
        errors = tuple(problem for problem in report.problems if problem.severity == "error")
        raise broken_config(ConfigError(errors or report.problems))
    return report


async def events(admin: Admin, call: Call[EventQuery, Nothing]) -> Response:
    """Server-sent events; resumes behind Last-Event-ID."""
    return streaming(event_stream(admin, _resume_point(call)), EVENT_STREAM)


def _resume_point(call: Call[EventQuery, Nothing]) -> int | None:
    last = call.request.headers.get("last-event-id")
    if last is None:
        return call.query.after
    if not (last.isascii() and last.isdigit() and len(last) <= _LONGEST_ID):
        raise RefusedError(400, "invalid_request", f"Last-Event-ID: {last!r} is not an event id", param="Last-Event-ID")
    return int(last)


async def shutdown(admin: Admin, _: Call[NoQuery, Nothing]) -> None:
    """Asks the server to end and answers at once."""
    admin.shutdown()
