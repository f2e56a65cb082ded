"""The OpenAPI description is served, and what it promises holds for whatever a fuzzer sends."""

from __future__ import annotations

import asyncio
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import strategies as st
from schemathesis.core.result import Ok

from fakes.admin import FakeAdmin
from gearshift.domain.settings import ApiKey, Settings
from gearshift.web import create_admin
from gearshift.web.table import TABLE

KEY = "Bearer operator-key"
SLOW = list(hypothesis.HealthCheck)  # generating by schema is slow and filters much; the examples bound the time

ENDLESS = {"follow", "hold"}  # parameters that keep an answer open
KNOWN = {"variant": "qwen:q8", "lease_id": "lease-1", "job_id": "job-1"}


def application() -> Any:
    admin = FakeAdmin()
    admin.events_end = True  # a stream without an end would keep the fuzzer waiting
    admin.start_job(["bench"])
    asyncio.run(admin.take_lease("qwen:q8", exclusive=False, ttl_s=60))
    settings = Settings(api_keys=(ApiKey("me", "operator-key", role="operator"),), allowed_hosts=("testserver",))
    return create_admin(admin, lambda: settings, remote=True)


def schema_of(app: Any) -> Any:
    return schemathesis.openapi.from_asgi("/api/v1/openapi.json", app, headers={"Authorization": KEY})


SCHEMA = schema_of(application())
OPERATIONS = [result.ok() for result in SCHEMA.get_all_operations() if isinstance(result, Ok)]


def test_every_row_of_the_table_is_described() -> None:
    described = {(operation.method.upper(), operation.path) for operation in OPERATIONS}
    assert described == {(row.method, "/api/v1" + row.path.replace(":path", "")) for row in TABLE}


def name_what_exists(case: Any) -> None:
    """Made-up names alone would only ever be answered with 404. An empty one is left: it may be all that is wrong."""
    for name in case.path_parameters or {}:
        case.path_parameters[name] = KNOWN[name]
    if isinstance(case.body, dict) and isinstance(name := case.body.get("variant"), str) and name:
        case.body["variant"] = KNOWN["variant"]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode))
def test_what_a_fuzzer_sends_is_answered_as_described(operation: Any, mode: Any) -> None:
    @hypothesis.settings(max_examples=25, deadline=None, database=None, suppress_health_check=SLOW)
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode), known=st.booleans())
    def fuzz(case: Any, known: bool) -> None:  # noqa: FBT001 - hypothesis passes it by name
        if known:
            name_what_exists(case)
        query = case.query or {}
        if ENDLESS & query.keys():
            # Without it the answer ends; but it may be all that is wrong with a case that is to be refused.
            hypothesis.assume(mode is schemathesis.GenerationMode.POSITIVE)
            for name in ENDLESS:
                query.pop(name, None)
        case.call_and_validate(headers={"Authorization": KEY})

    fuzz()
