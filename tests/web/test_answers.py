"""What each operation answers, and how each failure reads."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest
from inline_snapshot import snapshot

from fakes.admin import FakeAdmin, stopped
from gearshift.domain.admin import ReloadReport
from gearshift.domain.errors import (
    DrainingError,
    Failure,
    GearshiftError,
    LoadFailedError,
    Problem,
    QueueFullError,
    StopIncompleteError,
)
from gearshift.web.operations import BODY_LIMIT

pytestmark = pytest.mark.anyio


async def test_the_rows_have_exactly_the_keys_of_the_contract(client: httpx2.AsyncClient) -> None:
    rows = (await client.get("/api/v1/variants")).json()
    assert rows[0] == snapshot(
        {
            "variant": "qwen:q8",
            "engine": "llama.cpp",
            "engine_version": "b11434",
            "state": "ready",
            "pids": [4100, 4101],
            "port": 41001,
            "gpus": ["GPU-a"],
            "planned_bytes": 32212254720,
            "measured_bytes": 33285996544,
            "context": 131072,
            "in_flight": 2,
            "queued": 1,
            "stage": None,
            "since_s": 61.5,
            "unload_in_s": 540.0,
            "failure": None,
        }
    )
    assert rows[2]["failure"] == snapshot(
        {
            "cause": "the weights file is not a GGUF file",
            "line": "E gguf_init: invalid magic",
            "fix": "download it again",
        }
    )


async def test_one_variant_is_found_by_its_id(client: httpx2.AsyncClient) -> None:
    assert (await client.get("/api/v1/variants/qwen:int4")).json()["engine"] == "vllm"


async def test_a_model_name_may_hold_a_slash(admin: FakeAdmin, client: httpx2.AsyncClient) -> None:
    admin.rows["org/qwen:q8"] = stopped("org/qwen:q8")
    assert (await client.post("/api/v1/variants/org/qwen:q8/load")).status_code == 200


async def test_status_names_the_server_and_its_variants(client: httpx2.AsyncClient) -> None:
    status = (await client.get("/api/v1/status")).json()
    assert [row["variant"] for row in status.pop("variants")] == ["qwen:q8", "qwen:int4", "smol:q4"]
    assert status == snapshot(
        {
            "version": "0.1.0",
            "pid": 4194305,
            "started": 1790000000.0,
            "listen": "http://127.0.0.1:8888",
            "config": "/etc/gearshift.yaml",
            "accepting": True,
        }
    )


async def test_a_running_variant_tells_what_it_is(client: httpx2.AsyncClient) -> None:
    told = (await client.get("/api/v1/variants/qwen:q8/provenance")).json()
    assert told == snapshot(
        {
            "gearshift": "0.1.0",
            "variant": "qwen:q8",
            "engine": {"kind": "llama.cpp", "version": "b11434", "digest": None},
            "argv": ["/opt/llama-server", "--model", "/models/q8.gguf", "--port", "PORT"],
            "env": {"CUDA_VISIBLE_DEVICES": "GPU-a"},
            "weights": [{"file": "/models/q8.gguf", "bytes": 32212254720, "sha256": None}],
            "template_sha256": "5e1f",
            "hardware": {
                "gpus": [
                    {
                        "name": "Fake GPU",
                        "bytes": 25769803776,
                        "settings": {
                            "max_clock_mhz": 2100,
                            "max_memory_clock_mhz": 9751,
                            "application_clock_mhz": None,
                            "application_memory_clock_mhz": None,
                            "power_limit_w": 350.0,
                            "default_power_limit_w": None,
                        },
                    }
                ],
                "driver": "580.95.05",
                "cpu": "EPYC",
                "cpu_governor": None,
                "cpu_max_mhz": None,
                "cores": 8,
                "ram_bytes": None,
                "kernel": "6.12",
            },
        }
    )


async def test_a_variant_that_does_not_run_is_told_from_an_unknown_one(client: httpx2.AsyncClient) -> None:
    stopped = await client.get("/api/v1/variants/qwen:int4/provenance")
    assert stopped.status_code == 409
    assert stopped.json() == snapshot(
        {
            "error": {
                "message": (
                    "qwen:int4 is stopped, and only a running variant shows what it is"
                    " (load it first: gearshift load qwen:int4)"
                ),
                "type": "invalid_request_error",
                "code": "not_running",
                "param": "variant",
            },
            "src": "gearshift",
        }
    )
    assert (await client.get("/api/v1/variants/nope/provenance")).status_code == 404


async def test_load_answers_with_the_row_once_it_is_ready(client: httpx2.AsyncClient) -> None:
    response = await client.post("/api/v1/variants/qwen:int4/load")
    assert (response.status_code, response.json()["state"]) == (200, "ready")


async def test_unload_answers_with_the_row_once_it_is_stopped(client: httpx2.AsyncClient) -> None:
    response = await client.post("/api/v1/variants/qwen:q8/unload")
    assert (response.status_code, response.json()["state"]) == (200, "stopped")


async def test_a_side_effect_needs_post(admin: FakeAdmin, client: httpx2.AsyncClient) -> None:
    response = await client.get("/api/v1/shutdown")
    assert (response.status_code, response.json()["error"]["code"]) == (405, "method_not_allowed")
    assert response.headers["allow"] == "POST"
    assert not admin.stopped


async def test_head_is_refused_because_it_would_open_streams_for_nobody(client: httpx2.AsyncClient) -> None:
    assert (await client.head("/api/v1/events")).status_code == 405


async def test_shutdown_answers_before_the_server_ends(admin: FakeAdmin, client: httpx2.AsyncClient) -> None:
    assert (await client.post("/api/v1/shutdown")).status_code == 202
    assert admin.stopped


async def test_an_unknown_variant_is_named_in_the_error(client: httpx2.AsyncClient) -> None:
    response = await client.post("/api/v1/variants/nope/load")
    assert response.status_code == 404
    assert response.json() == snapshot(
        {
            "error": {
                "message": "there is no variant 'nope' (known are: qwen:q8, qwen:int4, smol:q4)",
                "type": "invalid_request_error",
                "code": "model_not_found",
                "param": "model",
            },
            "src": "gearshift",
        }
    )


async def test_an_unknown_path_points_at_the_description(client: httpx2.AsyncClient) -> None:
    response = await client.get("/api/v1/nothing")
    assert response.status_code == 404
    assert response.json() == snapshot(
        {
            "error": {
                "message": "Not Found: GET /api/v1/nothing (see /api/v1/openapi.json)",
                "type": "invalid_request_error",
                "code": "not_found",
                "param": "path",
            },
            "src": "gearshift",
        }
    )


FAILURES = [
    (QueueFullError("the queue of qwen:q8 is full", retry_after_s=12.2), 429, "queue_full"),
    (DrainingError("the server is stopping"), 503, "draining"),
    (StopIncompleteError("pid 12 still holds 300 MiB"), 503, "stop_incomplete"),
    (LoadFailedError("qwen:q8 did not start", failure=Failure("out of memory")), 503, "load_failed"),
    (GearshiftError("no"), 500, "internal_error"),
]


@pytest.mark.parametrize(("error", "status", "code"), FAILURES)
async def test_each_failure_has_its_status(
    admin: FakeAdmin, client: httpx2.AsyncClient, error: GearshiftError, status: int, code: str
) -> None:
    admin.load_error = error
    response = await client.post("/api/v1/variants/qwen:q8/load")
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert error.message in response.json()["error"]["message"]


async def test_a_full_queue_says_when_to_come_again(admin: FakeAdmin, client: httpx2.AsyncClient) -> None:
    admin.load_error = QueueFullError("full", retry_after_s=12.2)
    response = await client.post("/api/v1/variants/qwen:q8/load")
    assert response.headers["retry-after"] == "13"


async def test_a_reload_says_what_it_changed(admin: FakeAdmin, client: httpx2.AsyncClient) -> None:
    admin.reload_report = ReloadReport(applied=True, added=("a:b",), removed=("c:d",))
    assert (await client.post("/api/v1/reload")).json() == snapshot(
        {"applied": True, "added": ["a:b"], "removed": ["c:d"], "changed": [], "untouched": [], "problems": []}
    )


async def test_a_reload_of_a_broken_file_is_refused_with_every_problem(
    admin: FakeAdmin, client: httpx2.AsyncClient
) -> None:
    problems = (Problem("not a number", "listen", line=1), Problem("unknown key", "modls", line=2, hint="models?"))
    admin.reload_report = ReloadReport(applied=False, problems=problems)
    response = await client.post("/api/v1/reload")
    assert response.status_code == 400
    assert response.json()["error"]["message"] == snapshot("""\
nothing was changed: 1: listen: not a number
2: modls: unknown key (models?)\
""")


async def test_a_body_with_several_mistakes_names_them_all(client: httpx2.AsyncClient) -> None:
    response = await client.post("/api/v1/leases", json={"ttl": "soon", "exclusiv": True})
    error = response.json()["error"]
    assert (response.status_code, error["type"], error["param"]) == (400, "invalid_request_error", "body.variant")
    assert error["message"].split("; ") == snapshot(
        [
            "body.variant: is missing",
            "body.ttl: 'soon' is not a duration",
            "write for example 90s, 10m or 1h30m",
            "body.exclusiv: is not known",
        ]
    )


@pytest.mark.parametrize("body", [b"{", b"[]", b'"x"', b"\xff", b"null"])
async def test_a_body_that_is_no_json_object_is_refused(client: httpx2.AsyncClient, body: bytes) -> None:
    response = await client.post("/api/v1/leases", content=body)
    assert (response.status_code, response.json()["src"]) == (400, "gearshift")


async def test_an_oversized_body_is_refused(client: httpx2.AsyncClient) -> None:
    response = await client.post("/api/v1/leases", content=b" " * (BODY_LIMIT + 1))
    assert (response.status_code, response.json()["error"]["param"]) == (413, "body")


@pytest.mark.parametrize("query", ["tail=-1", "tail=x", "folow=1", "tail=1&tail=2"])
async def test_a_wrong_parameter_is_named(client: httpx2.AsyncClient, query: str) -> None:
    response = await client.get(f"/api/v1/variants/qwen:q8/logs?{query}")
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "query." + query.partition("=")[0]


async def test_a_failure_nobody_foresaw_is_an_error_body_too(admin: FakeAdmin) -> None:
    from gearshift.domain.settings import Settings  # noqa: PLC0415 - only this test builds its own app
    from gearshift.web import create_admin  # noqa: PLC0415 - likewise

    admin.rows = None  # type: ignore[assignment]  # breaks the fake on purpose
    transport = httpx2.ASGITransport(app=create_admin(admin, Settings, remote=False), raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://admin") as client:
        response = await client.get("/api/v1/status")
    assert response.status_code == 500
    assert response.json()["error"]["code"] == "internal_error"


async def test_logs_are_the_last_lines_of_the_newest_launch(
    admin: FakeAdmin, client: httpx2.AsyncClient, tmp_path: Path
) -> None:
    admin.log_paths["qwen:q8"] = tmp_path / "launch.log"
    admin.log_paths["qwen:q8"].write_text("one\ntwo\nthree\n")
    assert (await client.get("/api/v1/variants/qwen:q8/logs?tail=2")).text == "two\nthree\n"


async def test_logs_of_a_variant_that_never_started_are_empty(client: httpx2.AsyncClient) -> None:
    response = await client.get("/api/v1/variants/qwen:int4/logs")
    assert (response.status_code, response.text) == (200, "")


async def test_logs_of_an_unknown_variant_are_an_error(client: httpx2.AsyncClient) -> None:
    assert (await client.get("/api/v1/variants/nope/logs")).status_code == 404


async def test_a_lease_is_taken_renewed_and_ended(client: httpx2.AsyncClient) -> None:
    taken = await client.post("/api/v1/leases", json={"variant": "qwen:int4", "exclusive": True, "ttl": "2m"})
    lease = taken.json()
    assert (taken.status_code, lease) == snapshot(
        (
            201,
            {
                "id": "lease-1",
                "variant": "qwen:int4",
                "exclusive": True,
                "ttl_s": 120.0,
                "expires": 1790000120.0,
                "endpoint": "http://127.0.0.1:41001",
            },
        )
    )
    renewed = await client.put(f"/api/v1/leases/{lease['id']}")
    assert renewed.json()["expires"] > lease["expires"]
    assert (await client.get("/api/v1/leases")).json() == [renewed.json()]
    assert (await client.delete(f"/api/v1/leases/{lease['id']}")).status_code == 204
    assert (await client.get(f"/api/v1/leases/{lease['id']}")).status_code == 404


@pytest.mark.parametrize("ttl", [0, 0.5, 1e9, "0s", "2d", "-5s", True, None, "9000h"])
async def test_a_lease_of_unreasonable_length_is_refused(client: httpx2.AsyncClient, ttl: object) -> None:
    response = await client.post("/api/v1/leases", json={"variant": "qwen:int4", "ttl": ttl})
    assert response.status_code == 400


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_an_unknown_lease_is_not_found(client: httpx2.AsyncClient, method: str) -> None:
    response = await client.request(method, "/api/v1/leases/none")
    assert (response.status_code, response.json()["error"]["code"]) == (404, "unknown_lease")


async def test_a_job_is_started_shown_and_cancelled(client: httpx2.AsyncClient) -> None:
    started = await client.post("/api/v1/jobs", json={"argv": ["bench", "ladder"]})
    job = started.json()
    assert (started.status_code, job) == snapshot(
        (
            201,
            {
                "id": "job-1",
                "argv": ["bench", "ladder"],
                "state": "running",
                "started": 1790000000.0,
                "ended": None,
                "exit_code": None,
                "log": "/nonexistent/job.log",
            },
        )
    )
    assert (await client.get("/api/v1/jobs")).json() == [job]
    assert (await client.delete(f"/api/v1/jobs/{job['id']}")).json()["state"] == "cancelled"
    assert (await client.get(f"/api/v1/jobs/{job['id']}/logs")).text == ""


async def test_an_unknown_job_is_not_found(client: httpx2.AsyncClient) -> None:
    assert (await client.delete("/api/v1/jobs/none")).status_code == 404
