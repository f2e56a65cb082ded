"""Refusals that only the admin API knows; the shape and status of all others come from the edge."""

from __future__ import annotations

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from starlette.responses import Response

from gearshift.domain.errors import ConfigError, GearshiftError
from gearshift.edge.errors import RefusedError, body_for

_WORDS = {"missing": "is missing", "extra_forbidden": "is not known"}


def not_found(name: str, *, what: str) -> RefusedError:
    """404 for a lease or job that does not exist."""
    return RefusedError(404, f"unknown_{what}", f"there is no {what} {name!r}", param=f"{what}_id")


def invalid(error: ValidationError, *, place: str) -> RefusedError:
    """400 with every problem of a body or query at once; ``param`` is the first one's place."""
    problems = [(_dotted(place, problem["loc"]), _said(problem)) for problem in error.errors(include_url=False)]
    text = "; ".join(f"{where}: {message}" for where, message in problems)
    return RefusedError(400, "invalid_request", text, param=problems[0][0])


def _said(problem: ErrorDetails) -> str:
    """What is wrong with one place: in our validators' own words, else in pydantic's."""
    if problem["type"] == "value_error":
        return str(problem["ctx"]["error"])
    return _WORDS.get(problem["type"], problem["msg"])


def _dotted(place: str, location: tuple[int | str, ...]) -> str:
    return ".".join([place, *map(str, location)])


def broken_config(error: ConfigError) -> RefusedError:
    """400 for a reload of an invalid file; the message holds every problem."""
    return RefusedError(400, "invalid_config", f"nothing was changed: {error.message}")


def error_response(error: GearshiftError) -> Response:
    """The answer for any failure that Gearshift names."""
    status, headers, body = body_for(error, "openai")
    response = Response(body, status, {"Cache-Control": "no-store"})
    response.raw_headers.extend(headers)
    return response
