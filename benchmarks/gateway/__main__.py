"""What the gateway adds: time to first token and CPU per stream event, beside a direct connection and a bare proxy.

    python -m benchmarks.gateway [--json] [--quick]

All three paths are measured in one run, in alternating order, so that other load on the box meets them alike. CPU is
the proxy process's own (user + system, /proc/PID/stat). Budgets: docs/api.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import uvloop
from benchmarks.gateway.client import Connection, request

_HERE = Path(__file__).parent
_TICK = os.sysconf("SC_CLK_TCK")
SMALL = json.dumps({"model": "bench", "stream": True, "messages": [{"role": "user", "content": "Say hello."}]}).encode()
TEXT = 'The quick brown fox "jumps" over\nthe lazy dog, again and again. '
LARGE = json.dumps({"model": "bench", "stream": True, "messages": [{"role": "user", "content": TEXT * 6200}]}).encode()
STREAMS, RATE = 64, 100.0


@contextmanager
def program(name: str, *ports: int) -> Iterator[subprocess.Popen[bytes]]:
    """A program of this folder, once it listens on its first port."""
    process = subprocess.Popen(
        [sys.executable, "-m", f"benchmarks.gateway.{name}", *map(str, ports)], cwd=_HERE.parents[1]
    )
    try:
        deadline = time.monotonic() + 20
        while not _listens(ports[0]):
            if time.monotonic() > deadline or process.poll() is not None:
                raise SystemExit(f"{name} did not start")
            time.sleep(0.02)
        yield process
    finally:
        process.terminate()
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def cpu_s(process: subprocess.Popen[bytes]) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


async def first_event(paths: Mapping[str, int], body: bytes, rounds: int) -> dict[str, list[float]]:
    """Seconds to the first event, one request after the other, the paths in turn."""
    connections = {name: await Connection.open(port) for name, port in paths.items()}
    times: dict[str, list[float]] = {name: [] for name in paths}
    order = list(paths)
    for number in range(rounds + 20):
        for name in order if number % 2 else reversed(order):
            took = await connections[name].send(request(paths[name], body, events=1, rate=0))
            if number >= 20:  # the first rounds warm up
                times[name].append(took)
    for connection in connections.values():
        connection.transport.close()
    return times


async def streams(port: int, process: subprocess.Popen[bytes], seconds: float) -> dict[str, float]:
    """64 streams of 100 events a second: CPU per event, and how far behind the last event came."""
    events = int(seconds * RATE)
    connections = [await Connection.open(port) for _ in range(STREAMS)]
    message = request(port, SMALL, events=events, rate=RATE)
    before, began = cpu_s(process), time.perf_counter()
    own = time.process_time()

    async def one(number: int) -> float:
        await asyncio.sleep(number / STREAMS / RATE)
        sent = time.perf_counter()
        await connections[number].send(message)
        return connections[number].last - sent - events / RATE

    late = await asyncio.gather(*map(one, range(STREAMS)))
    used, own = cpu_s(process) - before, time.process_time() - own
    for connection in connections:
        connection.transport.close()
    total = STREAMS * events
    took = time.perf_counter() - began
    return {
        "cpu_us_per_event": used / total * 1e6,
        "cpu_share": used / took,
        "client_cpu_share": own / took,
        "late_ms": max(late) * 1e3,
    }


def quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def first_event_rows(times: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    for name, values in times.items():
        rows[name] = {"p50_ms": statistics.median(values) * 1e3, "p99_ms": quantile(values, 0.99) * 1e3}
    for name in ("bare", "gateway"):
        pairs = [through - direct for through, direct in zip(times[name], times["direct"], strict=True)]
        rows[name] |= {
            "added_p50_ms": rows[name]["p50_ms"] - rows["direct"]["p50_ms"],
            "added_paired_p50_ms": statistics.median(pairs) * 1e3,
            "added_p99_ms": rows[name]["p99_ms"] - rows["direct"]["p99_ms"],
        }
    return rows


async def measure(rounds: int, repeats: int, seconds: float) -> dict[str, Any]:
    upstream, bare, gateway = free_ports(3)
    with ExitStack() as stack:
        stack.enter_context(program("upstream", upstream))
        proxies = {
            "bare": (bare, stack.enter_context(program("bare", bare, upstream))),
            "gateway": (gateway, stack.enter_context(program("served", gateway, upstream))),
        }
        paths = {"direct": upstream, "bare": bare, "gateway": gateway}
        small = first_event_rows(await first_event(paths, SMALL, rounds))
        large = first_event_rows(await first_event(paths, LARGE, max(20, rounds // 4)))
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in proxies}
        for number in range(repeats):
            for name in list(proxies) if number % 2 else reversed(list(proxies)):
                runs[name].append(await streams(*proxies[name], seconds))
    medians = {
        name: {key: statistics.median(run[key] for run in found) for key in found[0]} for name, found in runs.items()
    }
    ratios = [a["cpu_us_per_event"] / b["cpu_us_per_event"] for a, b in zip(runs["gateway"], runs["bare"], strict=True)]
    return {
        "small_chat": small,
        "prompt_400kb": {"body_bytes": len(LARGE), **large},
        "streams": {
            "count": STREAMS,
            "events_per_s": RATE,
            **medians,
            "cpu_ratio_median": statistics.median(ratios),
            "cpu_ratios": ratios,
        },
    }


def table(result: Mapping[str, Any]) -> str:
    lines = [f"{'time to first event, ms':<28}{'p50':>9}{'p99':>9}{'added p50':>11}{'paired':>9}{'added p99':>11}"]
    for case in ("small_chat", "prompt_400kb"):
        for name in ("direct", "bare", "gateway"):
            row = result[case][name]
            added = "".join(
                f"{row[key]:>{width}.3f}" if key in row else " " * width
                for key, width in (("added_p50_ms", 11), ("added_paired_p50_ms", 9), ("added_p99_ms", 11))
            )
            lines.append(f"{case + ' ' + name:<28}{row['p50_ms']:>9.3f}{row['p99_ms']:>9.3f}{added}")
    found = result["streams"]
    lines.append(
        f"\n{found['count']} streams x {found['events_per_s']:.0f} events/s   "
        "us CPU/event   CPU share   client CPU   late ms"
    )
    for name in ("bare", "gateway"):
        row = found[name]
        lines.append(
            f"{name:<30}{row['cpu_us_per_event']:>12.1f}{row['cpu_share']:>12.2f}"
            f"{row['client_cpu_share']:>13.2f}{row['late_ms']:>10.1f}"
        )
    lines.append(
        f"CPU per event, gateway / bare: {found['cpu_ratio_median']:.2f} (median of {len(found['cpu_ratios'])} pairs)"
    )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.gateway", description="What the gateway adds.")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, for a look")
    arguments = parser.parse_args()
    rounds, repeats, seconds = (200, 1, 2.0) if arguments.quick else (2000, 5, 4.0)
    result = uvloop.run(measure(rounds, repeats, seconds))
    print(json.dumps(result, indent=2) if arguments.json else table(result))


if __name__ == "__main__":
    main()
