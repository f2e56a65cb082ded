"""Error bodies of every dialect, from one table: which failure is which status, type and code.

OpenAI's shape is ``{"error": {message, type, code, param}, "src": "gearshift"}``; Anthropic's routes get
``{"type": "error", "error": {type, message}, "src": "gearshift"}``. ``src`` tells our refusals from the engine's own
answers, which pass through untouched.
"""

from __future__ import annotations

import math
from http import HTTPStatus
from typing import Literal

import msgspec

from gearshift.domain.errors import (
    DrainingError,
    GearshiftError,
    InterruptedLeaseError,
    LoadFailedError,
    NotResidentError,
    NotRunningError,
    QueueFullError,
    StopIncompleteError,
    UnknownIdError,
    UnknownModelError,
)
from gearshift.edge.asgi import Header

Dialect = Literal["openai", "responses", "anthropic"]


class RefusedError(GearshiftError):
    """A request turned away before any engine saw it: its status, a code for programs, the parameter at fault."""

    def __init__(
        self, status: int, code: str, message: str, *, param: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.code = code
        self.param = param


_STATUS: dict[type[GearshiftError], tuple[int, str, str | None]] = {
    UnknownModelError: (404, "model_not_found", "model"),
    QueueFullError: (429, "queue_full", None),
    NotResidentError: (503, "not_resident", "model"),
    NotRunningError: (409, "not_running", "variant"),
    DrainingError: (503, "draining", None),
    LoadFailedError: (503, "load_failed", "model"),
    InterruptedLeaseError: (503, "engine_interrupted", None),
    StopIncompleteError: (503, "stop_incomplete", None),
    UnknownIdError: (404, "not_found", None),
}
_OPENAI_TYPE = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_ANTHROPIC_TYPE = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "request_too_large",
    415: "invalid_request_error",
    429: "rate_limit_error",
}
# Asking again at once cannot help here, and SDKs that retry any 503 would only repeat a failing load.
_NO_RETRY = (LoadFailedError, NotResidentError)
_SERVER_ERROR = 500


def classify(error: GearshiftError) -> tuple[int, str, str | None]:
    """Status, code and parameter of a failure; what the table does not name is an internal error."""
    if isinstance(error, RefusedError):
        return error.status, error.code, error.param
    for kind in type(error).__mro__:
        if known := _STATUS.get(kind):
            return known
    return _SERVER_ERROR, "internal_error", None


def body_for(error: GearshiftError, dialect: Dialect) -> tuple[int, list[Header], bytes]:
    """A whole error answer: status, headers (without the length) and JSON body."""
    status, _, _ = classify(error)
    headers = [(b"content-type", b"application/json")]
    if error.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % max(1, math.ceil(error.retry_after_s))))
    if isinstance(error, _NO_RETRY):
        headers.append((b"x-should-retry", b"false"))
    if status == HTTPStatus.UNAUTHORIZED:  # RFC 9110: it names the scheme it wants
        headers.append((b"www-authenticate", b"Bearer"))
    document = _anthropic(error) if dialect == "anthropic" else _openai(error)
    return status, headers, msgspec.json.encode(document)


def event_for(error: GearshiftError, dialect: Dialect, number: int = 0) -> bytes:
    """The same failure as an event of a stream that has begun; no end marker of the dialect follows it.

    ``number`` is its place among the events of a Responses stream, from 0.
    """
    if dialect == "anthropic":
        return b"event: error\ndata: %b\n\n" % msgspec.json.encode(_anthropic(error))
    document = _openai(error)
    if dialect == "openai":
        return b"data: %b\n\n" % msgspec.json.encode(document)
    _, code, param = classify(error)
    # A Responses error event is flat; "error" is kept beside it because the SDKs raise only when they see it.
    flat = {"type": "error", "code": code, "message": _sentence(error), "param": param, "sequence_number": number}
    return b"event: error\ndata: %b\n\n" % msgspec.json.encode({**flat, **document})


def _openai(error: GearshiftError) -> dict[str, object]:
    status, code, param = classify(error)
    fallback = "server_error" if status >= _SERVER_ERROR else "invalid_request_error"
    kind = _OPENAI_TYPE.get(status, fallback)
    return {
        "error": {"message": _sentence(error), "type": kind, "code": code, "param": param},
        "src": "gearshift",
    }


def _anthropic(error: GearshiftError) -> dict[str, object]:
    status, code, _ = classify(error)
    kind = _ANTHROPIC_TYPE.get(status, "api_error")
    return {
        "type": "error",
        "error": {"type": kind, "message": _sentence(error), "code": code},
        "src": "gearshift",
    }


def _sentence(error: GearshiftError) -> str:
    return f"{error.message} ({error.hint})" if error.hint else error.message
