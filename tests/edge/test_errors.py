from __future__ import annotations

import json
from typing import Any

import pytest

from gearshift.domain.errors import (
    DrainingError,
    Failure,
    GearshiftError,
    InterruptedLeaseError,
    LoadFailedError,
    NotResidentError,
    QueueFullError,
    StopIncompleteError,
    UnknownModelError,
)
from gearshift.edge.errors import Dialect, RefusedError, body_for, event_for

DIALECTS: list[Dialect] = ["openai", "responses", "anthropic"]
CASES: list[tuple[GearshiftError, int, str, str, str]] = [
    (RefusedError(400, "invalid_json", "m"), 400, "invalid_json", "invalid_request_error", "invalid_request_error"),
    (RefusedError(401, "invalid_api_key", "m"), 401, "invalid_api_key", "authentication_error", "authentication_error"),
    (RefusedError(403, "host_refused", "m"), 403, "host_refused", "permission_error", "permission_error"),
    (UnknownModelError("m"), 404, "model_not_found", "invalid_request_error", "not_found_error"),
    (RefusedError(413, "body_too_large", "m"), 413, "body_too_large", "invalid_request_error", "request_too_large"),
    (QueueFullError("m", retry_after_s=3), 429, "queue_full", "rate_limit_error", "rate_limit_error"),
    (NotResidentError("m"), 503, "not_resident", "server_error", "api_error"),
    (DrainingError("m"), 503, "draining", "server_error", "api_error"),
    (LoadFailedError("m", failure=Failure("c")), 503, "load_failed", "server_error", "api_error"),
    (InterruptedLeaseError("m"), 503, "engine_interrupted", "server_error", "api_error"),
    (StopIncompleteError("m"), 503, "stop_incomplete", "server_error", "api_error"),
    (GearshiftError("m"), 500, "internal_error", "server_error", "api_error"),
]


@pytest.mark.parametrize(("error", "status", "code", "openai_type", "anthropic_type"), CASES)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_failure_has_its_status_and_shape(
    error: GearshiftError, status: int, code: str, openai_type: str, anthropic_type: str, dialect: Dialect
) -> None:
    got, headers, body = body_for(error, dialect)
    document = json.loads(body)
    assert got == status
    assert (b"content-type", b"application/json") in headers
    assert document["src"] == "gearshift"
    assert document["error"]["message"] == "m"
    assert document["error"]["code"] == code
    if dialect == "anthropic":
        assert document["type"] == "error"
        assert document["error"]["type"] == anthropic_type
    else:
        assert document["error"]["type"] == openai_type
        assert "param" in document["error"]


def test_a_full_queue_says_in_whole_seconds_when_to_come_back() -> None:
    assert (b"retry-after", b"4") in body_for(QueueFullError("m", retry_after_s=3.2), "openai")[1]
    assert (b"retry-after", b"1") in body_for(QueueFullError("m", retry_after_s=0), "openai")[1]


def test_a_failed_load_tells_sdks_not_to_retry() -> None:
    error = LoadFailedError("m", failure=Failure("c", fix="lower the context"))
    _, headers, body = body_for(error, "openai")
    assert (b"x-should-retry", b"false") in headers
    assert json.loads(body)["error"]["message"] == "m (lower the context)"


def event(error: GearshiftError, dialect: Dialect) -> tuple[bytes | None, Any]:
    lines = event_for(error, dialect).removesuffix(b"\n\n").split(b"\n")
    name = lines[0].removeprefix(b"event: ") if len(lines) == 2 else None
    return name, json.loads(lines[-1].removeprefix(b"data: "))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_error_event_holds_the_error_and_no_end_marker(dialect: Dialect) -> None:
    name, document = event(InterruptedLeaseError("two\nlines"), dialect)
    assert document["error"]["message"] == "two\nlines"
    assert name == (None if dialect == "openai" else b"error")
    assert b"[DONE]" not in event_for(InterruptedLeaseError("m"), dialect)


def test_a_responses_error_event_is_flat_as_the_api_defines_it() -> None:
    _, document = event(UnknownModelError("m"), "responses")
    assert (document["type"], document["code"], document["message"], document["param"]) == (
        "error",
        "model_not_found",
        "m",
        "model",
    )


def test_a_subclass_is_what_its_parent_is() -> None:
    class SpecialError(DrainingError):
        pass

    assert body_for(SpecialError("m"), "openai")[0] == 503
