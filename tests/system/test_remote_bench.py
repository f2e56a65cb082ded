"""Measuring a Gearshift on another box: its admin API over TCP with an operator's key, and no socket of its own."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from artifacts.gguf_bytes import gguf_bytes
from gearshift import __version__
from gearshift.hardware import core_count
from gearshift.store import Measurements
from system.harness import Gearshift, StartServer, chat_body

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


ENGINE = Path(__file__).parents[1] / "fakes/truth_engine.py"
KEY = "the-operators-own-key"
BEARER = {"Authorization": f"Bearer {KEY}"}
SMALL = ("--input", "32", "--output", "8", "--requests", "1", "--repeats", "1")
SUMMED = ("drain_s", "stop_s", "memory_s", "load_s", "probe_s", "overhead_s")


def engine(weights: Path, **config: Any) -> dict[str, Any]:
    """A variant that serves weights of its own, and sets variables of which one is a secret."""
    argv = [sys.executable, str(ENGINE), "--port", "${port}", "--model", str(weights), "--api-key", "hunter2"]
    env = {"OMP_NUM_THREADS": "1", "HF_TOKEN": "hf_abcdefgh12345678"}
    return {"engine": "command", "command": argv, "memory": "10GiB", "env": env, **config}


@pytest.fixture
async def server(gearshift: StartServer, tmp_path: Path) -> Gearshift:
    """Two variants that do not fit beside each other, behind a key."""
    variants = {}
    for name in ("a", "b"):
        weights = tmp_path / f"{name}.gguf"
        weights.write_bytes(gguf_bytes({"general.name": name, "tokenizer.chat_template": "{{ messages }}"}))
        variants[name] = engine(weights)
    keys = [{"name": "me", "key_env": "OPERATOR", "role": "operator"}]
    started: Gearshift = await gearshift(variants, env={"OPERATOR": KEY}, api_keys=keys, run=False)
    await started.start()
    return started


async def bench(server: Gearshift, *words: str, remote: bool = True) -> Any:
    """What `bench` prints, asked at the server's port with its key, else at its socket; both have one store."""
    place = {"GEARSHIFT_HOME": str(server.home), "KEY": KEY}
    if remote:
        place |= {"GEARSHIFT_URL": server.url, "GEARSHIFT_OPERATOR_KEY": KEY}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gearshift", "bench", *words, "--json",
        env={**os.environ, **place}, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, told = await process.communicate()
    assert process.returncode == 0, told.decode()
    return json.loads(out)


async def test_a_remote_server_tells_what_it_runs_as_it_does_on_its_own_box(server: Gearshift, tmp_path: Path) -> None:
    (server.home / "admin.sock").rename(tmp_path / "kept.sock")
    asked = ("concurrency", "--model", "m:a", "--levels", "1", *SMALL, "--beside-traffic")
    far = await bench(server, *asked)
    found = far["target"]["provenance"]
    weights = tmp_path / "a.gguf"
    assert found["argv"][:4] == [sys.executable, str(ENGINE), "--port", "PORT"]
    assert found["argv"][-2:] == ["--api-key", "[redacted]"]
    assert found["env"]["OMP_NUM_THREADS"] == "1"
    assert "HF_TOKEN" not in found["env"]
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    assert found["weights"] == [{"file": str(weights), "bytes": weights.stat().st_size, "sha256": digest}]
    assert found["template_sha256"] == hashlib.sha256(b"{{ messages }}").hexdigest()
    assert found["engine"] == {"kind": "command", "version": None, "digest": None}
    assert found["hardware"]["cores"] == core_count()
    assert found["hardware"].keys() >= {"gpus", "driver", "cpu", "cpu_governor", "cpu_max_mhz", "ram_bytes", "kernel"}
    assert found["gearshift"] == __version__

    # The same cell is the same cell after another start, on another port, and when it is asked for on the box itself.
    (tmp_path / "kept.sock").rename(server.home / "admin.sock")
    port = (await server.row("m:a"))["port"]
    assert (await server.admin("POST", "/variants/m:a/unload")).status == 200
    again = await bench(server, *asked)
    near = await bench(server, *asked, "--key-env", "KEY", remote=False)
    assert (await server.row("m:a"))["port"] != port
    assert again["target"]["provenance"] == near["target"]["provenance"] == found
    store = Measurements(server.home / "gearshift.db")
    addresses = [cell.record.key for kept in store.experiments() for cell in store.experiment(kept.id).cells]
    assert len(addresses) == 3
    assert len(set(addresses)) == 1
    assert await server.stop() == 0


async def test_a_remote_server_is_measured_alone_while_others_wait(server: Gearshift) -> None:
    await server.call("POST", "/v1/chat/completions", json=chat_body("m:a"), headers=BEARER)
    measured = asyncio.create_task(bench(server, "concurrency", "--model", "m:a", "--levels", "1,2", *SMALL))
    while not any(lease["exclusive"] for lease in (await server.admin("GET", "/leases")).json):
        assert not measured.done(), await measured
        await asyncio.sleep(0.01)
    other = await server.call("POST", "/v1/chat/completions", json=chat_body("m:a"), headers=BEARER)
    assert other.status == 200  # it waited for the lease's end
    found = await measured
    assert found["target"]["provenance"]["through"] == "the gateway, alone"
    assert [cell["tokens"]["usage"] for cell in found["cells"]] == [8, 8]
    assert "foreign_requests" not in {flag for cell in found["cells"] for flag in cell["flags"]}
    async with asyncio.timeout(5):  # the server notices a client's end a little later
        while (await server.admin("GET", "/leases")).json:
            await asyncio.sleep(0.01)
    assert await server.stop() == 0


async def test_swaps_of_a_remote_server_have_their_phases(server: Gearshift) -> None:
    (server.home / "admin.sock").unlink()
    found = await bench(server, "swap", "m:a", "m:b", "--repeats", "1")
    assert [cell["setting"] for cell in found["cells"]] == ["m:a > m:b", "m:b > m:a"]
    for cell in found["cells"]:
        assert sum(cell[name]["median"] for name in SUMMED) == pytest.approx(cell["total_s"]["median"])
        assert cell["load_s"]["median"] > 0
        assert cell["first_token_s"]["median"] >= cell["load_s"]["median"]
        assert cell["flags"] == ["single_run"]
    digests = {name: told["provenance"]["weights"][0]["sha256"] for name, told in found["findings"]["targets"].items()}
    assert digests.keys() == {"m:a", "m:b"}
    assert len(set(digests.values())) == 2
    assert await server.stop() == 0
