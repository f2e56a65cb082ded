"""What a swap costs beyond the engines' own stop, memory return, load and probe.

Two variants of the scripted engine take turns. The engines' shares are what the supervisor stamped; what is left of
the time from the decision to ready is ours. The client's wait, less a request to the engine once it is ready, is shown
beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from system.harness import Gearshift, fake, free_port

BUDGET_S = 0.050


async def run(swaps: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        async with aiohttp.ClientSession() as client:
            server = Gearshift(Path(folder) / "state", Path(folder) / "gearshift.yaml", free_port(), client=client)
            variants = {
                "a": fake(load_seconds=0.05, stop_seconds=0.02),
                "b": fake(load_seconds=0.05, stop_seconds=0.02),
            }
            server.write(
                {"memory": "16GiB", "defaults": {"min_resident": "0s"}, "models": {"m": {"variants": variants}}}
            )
            await server.start()
            try:
                return await measure(server, swaps)
            finally:
                await server.stop()


async def measure(server: Gearshift, swaps: int) -> dict[str, Any]:
    waits, direct = [], []
    await server.chat("m:a", max_tokens=1)
    for number in range(swaps):
        variant = "m:b" if number % 2 == 0 else "m:a"
        waits.append(await timed(server, variant))
        direct.append(await timed(server, variant))
    done = [event["data"] for event in await events(server, swaps + 1)][1:]
    ours = [swap["overhead_s"] for swap in done]
    engines = [swap["stop_s"] + swap["memory_s"] + swap["load_s"] + swap["probe_s"] for swap in done]
    outside = [wait - engine - plain for wait, engine, plain in zip(waits, engines, direct, strict=True)]
    return {"swaps": swaps, "overhead_s": ours, "client_beyond_engines_s": outside, "engines_s": engines}


async def timed(server: Gearshift, variant: str) -> float:
    began = time.perf_counter()
    answer = await server.chat(variant, max_tokens=1)
    if answer.status != 200 or not answer.whole:
        raise SystemExit(f"{variant}: {answer.status} {answer.body}")
    return time.perf_counter() - began


async def events(server: Gearshift, count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    connector = aiohttp.UnixConnector(str(server.home / "admin.sock"))
    async with (
        aiohttp.ClientSession(connector=connector) as client,
        client.get("http://gearshift/api/v1/events", params={"after": "0"}) as answer,
    ):
        async for line in answer.content:
            if line.startswith(b"data:") and (event := json.loads(line[5:]))["kind"] == "swap.done":
                found.append(event)
                if len(found) == count:
                    break
    return found


def row(name: str, values: list[float]) -> str:
    ordered = sorted(values)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return f"{name:<42}{statistics.median(values) * 1000:>9.1f}{p99 * 1000:>9.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--swaps", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = asyncio.run(run(options.swaps))
    if options.json:
        print(json.dumps(result))
        return
    print(f"Swap, {result['swaps']} in a row{'':<24}p50 ms   p99 ms")
    print(row("engines: stop, memory, load, probe", result["engines_s"]))
    print(row("Gearshift beyond that (its own stamps)", result["overhead_s"]))
    print(row("client beyond engines and a plain request", result["client_beyond_engines_s"]))
    median_ms = statistics.median(result["overhead_s"]) * 1000
    verdict = "kept" if median_ms <= BUDGET_S * 1000 else "EXCEEDED"
    print(f"budget {BUDGET_S * 1000:.0f} ms: {verdict} (median {median_ms:.1f} ms)")


if __name__ == "__main__":
    main()
