"""The whole thing on real engines with real weights: llama-server and vLLM (CPU) with SmolLM2-135M."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import openai
import pytest

from system.harness import ENV, StartServer, alive, marked, read, run_serve, until

pytestmark = [pytest.mark.anyio, pytest.mark.real]


REPEATING = "Repeat this sentence five times: the cat sat on the mat and the dog sat on the cat."


def llama(gguf: str, **more: Any) -> dict[str, Any]:
    return {"engine": "llama.cpp", "weights": gguf, "context": 2048, "parallel": 1, **more}


def one_group(*names: str) -> dict[str, Any]:
    return {"one": {"swap": True, "members": [f"m:{name}" for name in names]}}


async def test_llama_variants_swap_and_leave_nothing_behind(gearshift: StartServer, gguf: str) -> None:
    variants = {"a": llama(gguf), "b": llama(gguf, kv_dtype="q8_0", context=4096)}
    server = await gearshift(variants, env=ENV, groups=one_group("a", "b"))
    first = await server.chat("m:a", max_tokens=8)
    assert first.whole
    assert first.text
    pids = (await server.row("m:a"))["pids"]
    second = await server.chat("m:b", max_tokens=8)
    assert second.text
    assert not [pid for pid in pids if alive(pid)]
    async with asyncio.timeout(10):
        while (row := await server.row("m:b"))["measured_bytes"] is None:
            await asyncio.sleep(0.02)
    assert row["context"] == 4096
    assert row["engine_version"] == "11434"
    assert 2**26 < row["measured_bytes"] < 2**31  # the weights are 85 MiB
    assert await server.stop() == 0
    assert marked(server.home) == []


async def test_two_llama_variants_that_fit_are_resident_together(gearshift: StartServer, gguf: str) -> None:
    server = await gearshift({"a": llama(gguf), "b": llama(gguf)}, env=ENV)
    await server.chat("m:a", max_tokens=2)
    await server.chat("m:b", max_tokens=2)
    rows = await server.rows()
    assert {row["state"] for row in rows.values()} == {"ready"}
    assert all(row["planned_bytes"] for row in rows.values())


async def test_a_start_is_compared_with_its_plan_and_the_next_plan_knows(gearshift: StartServer, gguf: str) -> None:
    server = await gearshift({"a": llama(gguf)}, env=ENV)
    await server.chat("m:a", max_tokens=2)
    compared = (await server.first_event("plan.compared"))["data"]
    kv = compared["figures"]["kv cache"]
    assert kv["planned"] == kv["logged"] == 2048 * 30 * 3 * 64 * 2 * 2  # cells, layers, heads, their size, K and V, f16
    await until((server.home / "calibrations.json").exists, what="the kept calibration")


async def test_ngram_speculation_really_drafts_and_the_neutral_metrics_say_so(
    gearshift: StartServer, gguf: str
) -> None:
    server = await gearshift({"a": llama(gguf, speculation={"method": "ngram"})}, env=ENV)
    prompt = "The cat sat on the mat and the dog sat on the cat. " * 16
    body = {"model": "m:a", "prompt": prompt, "max_tokens": 96, "temperature": 0, "ignore_eos": True}
    assert (await server.call("POST", "/v1/completions", json=body)).status == 200
    metrics = (await server.get("/metrics")).body
    drafts = [line for line in metrics.splitlines() if line.startswith("gearshift_engine_drafts_total{")]
    assert drafts, metrics
    assert any(float(line.rpartition(" ")[2]) > 0 for line in drafts), drafts


async def test_a_llama_server_killed_mid_stream_is_told_and_restarted(gearshift: StartServer, gguf: str) -> None:
    server = await gearshift({"a": llama(gguf)}, env=ENV)
    async with server.streaming("m:a", max_tokens=1500, ignore_eos=True) as stream:
        while b"content" not in await stream.content.readuntil(b"\n\n"):
            pass
        pid = (await server.row("m:a"))["pids"][0]
        os.kill(pid, signal.SIGKILL)
        rest = await read(stream)
    assert not rest.whole
    assert "[DONE]" not in rest.body
    await until(lambda: not alive(pid))
    await server.until_state("m:a", "ready")


async def test_weights_that_are_no_model_fail_with_the_engines_own_root_cause(
    gearshift: StartServer, tmp_path: Any
) -> None:
    rubbish = tmp_path / "rubbish.gguf"
    rubbish.write_bytes(b"not a model" * 100)
    server = await gearshift({"a": llama(str(rubbish))}, env=ENV)
    answer = await server.chat("m:a", stream=False)
    assert answer.status == 503
    assert "magic" in answer.json["error"]["message"]
    row = await server.until_state("m:a", "failed")
    assert row["failure"]["line"]
    assert row["failure"]["fix"]


async def test_a_flag_that_this_build_no_longer_has_is_refused_before_anything_starts(
    gearshift: StartServer, gguf: str
) -> None:
    server = await gearshift({"a": llama(gguf, args={"no-mmap": True})}, env=ENV, run=False)
    code, said = run_serve(server)
    assert code == 2
    assert "gearshift.yaml:" in said
    assert "no-mmap" in said
    assert "load-mode" in said


async def test_the_openai_sdk_streams_from_a_real_engine(gearshift: StartServer, gguf: str) -> None:
    server = await gearshift({"a": llama(gguf)}, env=ENV)
    async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="none") as client:
        stream = await client.chat.completions.create(
            model="m:a", messages=[{"role": "user", "content": "Say hello."}], stream=True, max_tokens=16
        )
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])
        whole = await client.completions.create(model="m", prompt="One two three", max_tokens=4)
        models = [model.id async for model in client.models.list()]
    assert text
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 4
    assert "m:a" in models


@pytest.mark.timeout(420)
async def test_vllm_and_llama_swap_in_both_directions(gearshift: StartServer, gguf: str, hf: str) -> None:
    """Start of vLLM on two cores: about a minute. One test carries all that needs it."""
    vllm = {
        "engine": "vllm",
        "weights": hf,
        "context": 2048,
        "parallel": 4,
        "kv_bytes": "1GiB",
        "speculation": {"method": "ngram", "tokens": 3},
        "args": {"enforce-eager": True, "dtype": "bfloat16"},
    }
    server = await gearshift({"v": vllm, "l": llama(gguf)}, env=ENV, groups=one_group("v", "l"), keepalive="2s")
    answer = await asyncio.wait_for(
        server.chat("m:v", max_tokens=120, messages=[{"role": "user", "content": REPEATING}], temperature=0), 300
    )
    assert answer.whole, answer.body
    assert answer.text
    assert any(line.startswith(":") and "load" in line for line in answer.body.splitlines())
    row = await server.row("m:v")
    assert row["state"] == "ready"
    assert row["engine_version"] == "0.32.0"
    assert len(row["pids"]) >= 3
    metrics = (await server.get("/metrics")).body
    assert 'variant="m:v"' in metrics
    counted = await server.call("POST", "/tokenize", json={"model": "m:v", "prompt": "one two three"})
    assert counted.json["count"] > 0
    assert (await server.chat("m:l", max_tokens=4)).whole
    assert not [pid for pid in row["pids"] if alive(pid)]
    assert await server.stop() == 0
    assert marked(server.home) == []
