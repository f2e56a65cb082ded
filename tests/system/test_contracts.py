"""What design and documentation promise of a running server, seen from outside."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from fakes.engine_argv import fake_engine_argv
from system.harness import StartServer, alive, chat_body, fake, free_port, until

pytestmark = pytest.mark.anyio


async def test_preloaded_variants_are_ready_without_a_request(gearshift: StartServer) -> None:
    server = await gearshift({"a": fake(), "b": fake(memory="1GiB")}, preload=["m:a", "m:b"])
    await server.until_state("m:a", "ready")
    await server.until_state("m:b", "ready")


async def test_an_idle_variant_is_unloaded_after_its_time_and_says_when(gearshift: StartServer) -> None:
    server = await gearshift({"a": fake()}, defaults={"idle": {"unload_after": "700ms"}})
    await server.chat("m:a")
    row = await server.row("m:a")
    assert row["state"] == "ready"
    assert 0 <= row["unload_in_s"] <= 0.7
    await server.until_state("m:a", "stopped")


async def test_measured_bytes_are_what_the_processes_hold_and_planned_ones_keep_their_place(
    gearshift: StartServer,
) -> None:
    """On a CPU, where an engine grows into its plan: little is measured, and still the two do not fit together."""
    server = await gearshift({"a": fake(memory="10GiB"), "b": fake(memory="10GiB")})
    for variant in ("m:a", "m:b", "m:a", "m:b"):
        await server.chat(variant)
    async with asyncio.timeout(5):
        while (row := await server.row("m:b"))["measured_bytes"] is None:
            await asyncio.sleep(0.01)
    assert 0 < row["measured_bytes"] < 2**30
    assert row["planned_bytes"] == 10 * 2**30
    assert (await server.row("m:a"))["state"] == "stopped"


async def test_sampling_defaults_and_filters_reach_the_engine_and_the_clients_own_values_stay(
    gearshift: StartServer,
) -> None:
    variant = fake(config={"filters": {"drop": ["user"], "force": {"cache_prompt": True}}})
    model = {"aliases": ["em"], "sampling": {"temperature": 0.6, "top_k": 20}, "variants": {"a": variant}}
    server = await gearshift(models={"m": model})
    body = chat_body("em", temperature=0.1, user="me", stream=False)
    answer = await server.call("POST", "/v1/chat/completions", json=body)
    assert answer.headers["x-gearshift-variant"] == "m:a"
    sent = json.loads((await server.seen("m:a"))["requests"][-1]["body"])
    assert (sent["model"], sent["temperature"], sent["top_k"], sent["cache_prompt"]) == ("m", 0.1, 20, True)
    assert "user" not in sent


async def test_a_side_request_is_served_while_its_variant_is_loaded_and_never_loads_it(gearshift: StartServer) -> None:
    side = {"headers": {"X-Side": "title"}, "aliases": []}
    server = await gearshift({"a": fake(), "b": fake()}, side=side)
    headers = {"X-Side": "title"}
    url, body = "/v1/chat/completions", chat_body("m:a", stream=False)
    refused = await server.call("POST", url, json=body, headers=headers)
    assert refused.status == 503
    assert (await server.row("m:a"))["state"] == "stopped"
    await server.chat("m:a")
    assert (await server.call("POST", url, json=body, headers=headers)).status == 200
    await server.chat("m:b")
    assert (await server.call("POST", url, json=body, headers=headers)).status == 503
    assert (await server.row("m:b"))["state"] == "ready"


async def test_past_the_queue_limit_the_answer_is_429_with_a_time_to_come_back(gearshift: StartServer) -> None:
    busy = fake(tokens=100000, token_ms=5, config={"max_inflight": 1, "queue_limit": 1})
    server = await gearshift({"a": busy})
    async with server.streaming("m:a") as stream:
        await stream.content.readuntil(b"\n\n")
        waiting = asyncio.create_task(server.chat("m:a"))
        async with asyncio.timeout(5):
            while (await server.row("m:a"))["queued"] != 1:
                await asyncio.sleep(0.01)
        refused = await server.chat("m:a")
        waiting.cancel()
    assert refused.status == 429
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.json["src"] == "gearshift"


async def test_a_drain_timeout_interrupts_what_is_left_and_says_so(gearshift: StartServer) -> None:
    endless = fake(tokens=100000, token_ms=5)
    defaults = {"min_resident": "0s", "max_wait": "200ms", "drain_timeout": "300ms"}
    server = await gearshift({"a": endless, "b": fake()}, defaults=defaults)
    interrupted = asyncio.create_task(server.chat("m:a"))
    await server.until_state("m:a", "ready")
    async with asyncio.timeout(5):
        while (await server.row("m:a"))["in_flight"] != 1:
            await asyncio.sleep(0.01)
    assert (await server.chat("m:b")).whole
    broken = await interrupted
    assert not broken.whole
    assert "drain" in json.dumps(broken.events[-1]["error"])


async def test_members_of_a_group_without_swapping_stay_resident_whatever_the_figures_say(
    gearshift: StartServer,
) -> None:
    groups = {"pair": {"swap": False, "members": ["m:a", "m:b"]}}
    server = await gearshift({"a": fake(memory="12GiB"), "b": fake(memory="12GiB")}, groups=groups)
    await server.chat("m:a")
    await server.chat("m:b")
    assert {row["state"] for row in (await server.rows()).values()} == {"ready"}


async def test_a_container_like_engine_is_started_and_stopped_by_its_own_commands(
    gearshift: StartServer, tmp_path: Path
) -> None:
    """The starter detaches its server, as `docker run -d` does; the stop command ends it, as `docker stop` does."""
    pid_file, port = tmp_path / "pid", free_port()
    server_argv = list(fake_engine_argv(port, served="m"))
    run = tmp_path / "run.py"
    run.write_text(
        "import json, subprocess, sys\n"
        f"child = subprocess.Popen({server_argv!r}, start_new_session=True)\n"
        f"open({str(pid_file)!r}, 'w').write(str(child.pid))\n"
    )
    stop = tmp_path / "stop.py"
    stop.write_text(f"import os, signal\nos.kill(int(open({str(pid_file)!r}).read()), signal.SIGTERM)\n")
    variant = {
        "engine": "command",
        "command": [sys.executable, str(run)],
        "stop": [sys.executable, str(stop)],
        "upstream": f"http://127.0.0.1:{port}",
        "memory": "10GiB",
    }
    server = await gearshift({"a": variant, "b": fake()})
    assert (await server.chat("m:a")).text
    pid = int(pid_file.read_text())
    assert (await server.chat("m:b")).text
    await until(lambda: not alive(pid), what="the end of the container")


async def test_an_exclusive_operator_lease_keeps_requests_out_until_it_ends(gearshift: StartServer) -> None:
    server = await gearshift({"a": fake()})
    taken = await server.admin("POST", "/leases", json={"variant": "m:a", "exclusive": True, "ttl": 60})
    lease = taken.json
    waiting = asyncio.create_task(server.chat("m:a"))
    async with asyncio.timeout(5):
        while (await server.row("m:a"))["queued"] != 1:
            await asyncio.sleep(0.01)
    assert [held["id"] for held in (await server.admin("GET", "/leases")).json] == [lease["id"]]
    await server.admin("DELETE", f"/leases/{lease['id']}")
    assert (await waiting).whole


async def test_a_lease_that_nobody_renews_ends(gearshift: StartServer) -> None:
    server = await gearshift({"a": fake()})
    await server.admin("POST", "/leases", json={"variant": "m:a", "exclusive": True, "ttl": 0.3})
    assert (await server.chat("m:a")).whole
    assert (await server.admin("GET", "/leases")).json == []


async def test_the_admin_api_over_tcp_needs_an_operators_key(gearshift: StartServer) -> None:
    env = {"CLIENT": "client-secret", "OPERATOR": "operator-secret"}
    keys = [{"name": "c", "key_env": "CLIENT"}, {"name": "o", "key_env": "OPERATOR", "role": "operator"}]
    server = await gearshift({"a": fake()}, env=env, api_keys=keys)
    statuses = {
        secret: (await server.get("/api/v1/status", headers={"Authorization": f"Bearer {secret}"})).status
        for secret in ("wrong", "client-secret", "operator-secret")
    }
    assert statuses == {"wrong": 401, "client-secret": 403, "operator-secret": 200}
    served = await server.call(
        "POST", "/v1/chat/completions", json=chat_body("m:a"), headers={"Authorization": "Bearer client-secret"}
    )
    assert served.status == 200
    seen = json.dumps((await server.seen("m:a"))["requests"])
    assert "client-secret" not in seen
    assert "client-secret" not in server.log


async def test_a_job_runs_beside_the_server_and_its_log_is_kept(gearshift: StartServer) -> None:
    server = await gearshift({"a": fake()})
    started = (await server.admin("POST", "/jobs", json={"argv": ["engine", "install", "llama.cpp", "--dry-run"]})).json
    async with asyncio.timeout(20):
        while (job := (await server.admin("GET", f"/jobs/{started['id']}")).json)["state"] == "running":
            await asyncio.sleep(0.05)
    assert (job["state"], job["exit_code"]) == ("done", 0)
    assert "llama.cpp" in Path(job["log"]).read_text()  # noqa: ASYNC240 - a short file on a local disk


async def test_requests_and_swaps_are_on_record_with_their_stamps(gearshift: StartServer) -> None:
    server = await gearshift({"a": fake(token_ms=5)})
    await server.chat("m:a", max_tokens=5)
    await server.stop()
    from gearshift.store import open_store  # noqa: PLC0415 - read only once the server has let go of it

    store = open_store(server.home / "gearshift.db")
    (request,) = store.requests()
    (swap,) = store.swaps()
    assert (request.variant, request.status, request.outcome, request.tokens_out) == ("m:a", 200, "ok", 4)
    assert request.dispatched_s is not None
    assert request.first_token_s is not None
    assert request.last_token_s is not None
    assert request.dispatched_s <= request.first_token_s <= request.last_token_s <= request.ended_s
    assert (swap.variant, swap.cold, swap.failure) == ("m:a", True, None)
    assert swap.total_s >= swap.load_s


async def test_a_verbose_server_logs_a_line_for_every_request(gearshift: StartServer) -> None:
    server = await gearshift({"a": fake()}, flags=("--verbose",))
    await server.chat("m:a")
    await until(lambda: '"event": "request"' in server.log, what="the line")
    line = next(json.loads(line) for line in server.log.splitlines() if '"event": "request"' in line)
    assert (line["variant"], line["status"], line["outcome"]) == ("m:a", 200, "ok")
