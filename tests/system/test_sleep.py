"""vLLM's sleep, seen from outside: a scripted vLLM on a scripted GPU, since no real one sleeps without a card."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fakes.engine_argv import FAKE_ENGINE
from system.harness import StartServer, alive, bench

pytestmark = pytest.mark.anyio

GPU = {"GEARSHIFT_FAKE_GPUS": "1x24GiB"}
API_SERVER = f"""\
import argparse, os, sys
parser = argparse.ArgumentParser("api_server.py", allow_abbrev=False)
for name in ("model", "host", "port", "served-model-name", "max-model-len", "kv-cache-memory-bytes", "max-num-seqs"):
    parser.add_argument("--" + name)
parser.add_argument("--enable-sleep-mode", action="store_true")
parser.add_argument("--hf-overrides", help="here: switches of the fake engine")
given = parser.parse_args(["--help"] if "--help=all" in sys.argv else None)
assert given.enable_sleep_mode and os.environ["VLLM_SERVER_DEV_MODE"] == "1"
argv = [{sys.executable!r}, "-S", "-E", {str(FAKE_ENGINE)!r}, "--port", given.port, "--style", "vllm"]
argv += ["--served", given.served_model_name, *filter(None, [given.hf_overrides])]
os.execv(argv[0], argv)
"""


@pytest.fixture(scope="module")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with a vllm that takes the flags given to it and then plays the fake engine."""
    folder = tmp_path_factory.mktemp("vllm")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=60)
    (packages,) = folder.glob("lib/python*/site-packages")
    module = packages / "vllm" / "entrypoints" / "openai"
    module.mkdir(parents=True)
    (module / "api_server.py").write_text(API_SERVER)
    info = packages / "vllm-0.32.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0\n")
    return folder


def sleeper(vllm: Path, **more: Any) -> dict[str, Any]:
    return {
        "engine": f"vllm@{vllm}",
        "weights": str(vllm),
        "memory": "20GiB",
        "sleep": {"level": 1, "ram": "1MiB"},
        **more,
    }


async def test_a_variant_makes_room_by_sleeping_and_wakes_for_its_next_request(
    gearshift: StartServer, vllm: Path
) -> None:
    server = await gearshift({"a": sleeper(vllm), "b": sleeper(vllm)}, env=GPU)
    assert (await server.chat("m:a")).text
    pids = (await server.row("m:a"))["pids"]
    assert (await server.chat("m:b")).text
    assert (await server.row("m:a"))["state"] == "sleeping"
    refused = await server.call("POST", "/upstream/m:b/wake_up")
    assert (refused.status, refused.json["error"]["code"]) == (404, "reserved_path")
    assert (await server.chat("m:a")).text
    row = await server.row("m:a")
    assert (row["state"], row["pids"]) == ("ready", pids), server.log
    assert (await server.row("m:b"))["state"] == "sleeping"


async def test_a_wake_without_a_token_becomes_a_cold_start(gearshift: StartServer, vllm: Path) -> None:
    server = await gearshift({"a": sleeper(vllm, args={"hf-overrides": "--sleep-broken"}), "b": sleeper(vllm)}, env=GPU)
    assert (await server.chat("m:a")).text
    (pid, *_) = (await server.row("m:a"))["pids"]
    assert (await server.chat("m:b")).text
    assert (await server.row("m:a"))["state"] == "sleeping"
    assert (await server.chat("m:a")).text
    row = await server.row("m:a")
    assert row["state"] == "ready"
    assert pid not in row["pids"]
    assert not alive(pid)


async def test_swaps_of_variants_that_sleep_are_measured_asleep_too(
    gearshift: StartServer, vllm: Path, tmp_path: Path
) -> None:
    gpu = tmp_path / "gpu.json"
    one = sleeper(vllm, args={"hf-overrides": f"--gpu-file={gpu}"})
    server = await gearshift({"a": one, "b": one}, env={"GEARSHIFT_FAKE_GPUS": f"1x24GiB@{gpu}"})
    found = await bench(server, "swap", "m:a", "m:b", "--repeats", "2")
    rows = {cell["setting"]: cell for cell in found["cells"]}
    assert list(rows) == ["m:a > m:b", "m:a > m:b, woken", "m:b > m:a", "m:b > m:a, woken"]
    for name, cell in rows.items():
        assert (cell["trials"], cell["flags"], cell["cold"]) == (2, [], [not name.endswith("woken")] * 2)
        assert cell["sleep_s"]["median"] > 0
        assert (cell["stop_s"]["median"], cell["memory_s"]["median"]) == (0, 0)
        assert (cell["wake_s"] is None) == (not cell["woken"])
        assert (cell["load_s"]["median"] == 0) == cell["woken"]
        assert cell["freed_bytes"]["median"] == 14 * 2**30
        assert cell["first_token_s"]["median"] >= cell["sleep_s"]["median"]
    slept = found["findings"]["sleep"]
    assert {name: sorted(figure for figure, value in of.items() if value) for name, of in slept.items()} == {
        name: ["freed_bytes", "sleep_s", "wake_s"] for name in ("m:a", "m:b")
    }
    assert not [line for line in found["advice"] if "not measured" in line]
