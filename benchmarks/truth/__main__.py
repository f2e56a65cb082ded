"""Proves the load generator against a server of known truth: TPOT within 2 %, TTFT within 2 % + 2 ms.

The truth server runs in its own process. Each row is one closed loop; the truth is computed from the script by the
same definitions. Then: what a cell costs beyond the requests it measures (at most 0.3 s), and what an A/B comparison
says of a planted slowdown of 5 % and of none. Exit code 1 when a bound is broken or a verdict is wrong; one comparison
of equal sides in twenty ends in a verdict by chance, so a difference below 1 % is forgiven there.

    python -m benchmarks.truth [--streams 1,8,64] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import IO, cast

from gearshift.bench.bodies import Ask, Dialect
from gearshift.bench.client import Client
from gearshift.bench.experiments import ab
from gearshift.bench.load import closed_loop
from gearshift.bench.plan import CellPlan
from gearshift.bench.rig import Rig
from gearshift.bench.runner import Runner
from gearshift.bench.sample import Sample
from gearshift.bench.truth import Script
from gearshift.bench.watch import watching
from gearshift.stats import Verdict

TPOT_SHARE = 0.02
TTFT_SHARE, TTFT_FLOOR_S = 0.02, 0.002
TOKENS = 128
FIXED_COST_S = 0.3
FORGIVEN = 0.01

SHAPES: dict[str, tuple[Script, Dialect]] = {
    "plain": (Script(), "chat"),
    "4 tokens a chunk": (Script(tokens_per_chunk=(4,), step_s=0.04, draft=3), "chat"),
    "2-3-4 tokens a chunk": (Script(tokens_per_chunk=(2, 3, 4), step_s=0.025, draft=3), "chat"),
    "half reasoning, vLLM": (Script(reasoning=64), "chat"),
    "half reasoning, llama": (Script(reasoning=64, flavour="llama.cpp"), "chat"),
    "tool call": (Script(tool=64), "chat"),
    "completions, llama": (Script(flavour="llama.cpp"), "completions"),
    "responses": (Script(), "responses"),
}


@dataclass(frozen=True, slots=True)
class Row:
    """Measured against true, seconds; errors as shares."""

    shape: str
    streams: int
    ttft_s: float
    ttft_error_s: float
    tpot_s: float
    tpot_error: float
    loop_lag_s: float
    cpu: float
    ok: bool


async def fixed_cost(url: str, script: Script) -> float:
    """Median seconds that a cell takes beyond what its requests do by the script: warm-up and trials are known."""
    plan = CellPlan("cost", concurrency=4, depth=1024, output=32, requests=4, trials=2)
    costs = []
    async with Rig(url) as rig:
        await rig.cell(plan)  # the first cell reads the corpus into the server's tokenizer; it is paid once a run
        for number in range(5):
            begin = time.perf_counter()
            result = await rig.cell(replace(plan, depth=1024 + number))
            warm_up_s = script.ttft_s + (16 - 1) * script.step_s
            costs.append(time.perf_counter() - begin - warm_up_s - sum(trial.wall_s for trial in result.trials))
    return median(costs)


async def planted(url: str, script: Script, slowdown: float) -> Verdict:
    """The verdict over eight pairs whose B decodes slower by ``slowdown``."""
    side = CellPlan("ab", depth=64, output=64, requests=1, setting="a")
    slower = {"truth": {"step_s": script.step_s * (1 + slowdown)}}
    plan = ab.plan(side, replace(side, setting="b", extra=slower), pairs=8)
    async with Rig(url) as rig:
        verdict = (await ab.run(Runner(rig), plan)).outcome.verdict
    if verdict is None:
        msg = "the comparison was invalid: run it on a quieter box"
        raise SystemExit(msg)
    return verdict


@contextmanager
def truth_server(script: Script) -> Iterator[str]:
    """The URL of a truth server in a process of its own."""
    argv = [sys.executable, "-m", "gearshift.bench.truth", json.dumps(asdict(script))]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        output = cast("IO[str]", process.stdout)  # piped above
        try:
            yield output.readline().strip()
        finally:
            process.terminate()


async def measure(url: str, script: Script, dialect: Dialect, streams: int) -> tuple[tuple[Sample, ...], float, float]:
    """Two requests a stream after a warm-up of one; also the loop's lag and the CPU share."""
    ask = Ask("truth", TOKENS, dialect)
    async with Client(url) as client:
        calls = [ask.call(f"request {number} of many") for number in range(2 * streams)]
        await closed_loop(client, calls[:streams], concurrency=streams, spread_s=script.ttft_s)
        async with watching() as watch:
            samples = await closed_loop(client, calls, concurrency=streams, spread_s=script.ttft_s)
    return samples, watch.report.loop_lag_s, watch.report.cpu


def judge(shape: str, script: Script, streams: int, run: tuple[tuple[Sample, ...], float, float]) -> Row:
    """Compare medians with the script."""
    samples, lag_s, cpu = run
    broken = [sample.error for sample in samples if not sample.ok]
    if broken:
        msg = f"{shape}: {len(broken)} requests failed: {broken[0]}"
        raise SystemExit(msg)
    ttft = median(sample.ttft_s for sample in samples if sample.ttft_s is not None)
    tpot = median(sample.tpot_s for sample in samples if sample.tpot_s is not None)
    true_tpot = script.tpot_s(TOKENS)
    tpot_error, ttft_error = tpot / true_tpot - 1, ttft - script.ttft_s
    ok = abs(tpot_error) <= TPOT_SHARE and abs(ttft_error) <= TTFT_SHARE * script.ttft_s + TTFT_FLOOR_S
    return Row(shape, streams, ttft, ttft_error, tpot, tpot_error, lag_s, cpu, ok)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--streams", default="1,8,64")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    for shape, (script, dialect) in SHAPES.items():
        with truth_server(replace(script, cache=False)) as url:
            for streams in map(int, options.streams.split(",")):
                run = asyncio.run(measure(url, script, dialect, streams))
                rows.append(judge(shape, script, streams, run))
                if not options.json:
                    print_row(rows[-1])
    script = Script()
    with truth_server(script) as url:
        cost_s = asyncio.run(fixed_cost(url, script))
        verdicts = {slowdown: asyncio.run(planted(url, script, slowdown)) for slowdown in (0.05, 0.0)}
    if options.json:
        compared = {f"{slowdown:.0%}": asdict(verdict) for slowdown, verdict in verdicts.items()}
        print(
            json.dumps({"rows": [asdict(row) for row in rows], "fixed_cost_s": cost_s, "planted": compared}, indent=1)
        )
    else:
        print(f"a cell costs {cost_s:.3f} s of its own (limit {FIXED_COST_S} s)")
        for slowdown, verdict in verdicts.items():
            print(f"planted slowdown {slowdown:.0%}: {verdict_words(verdict)}")
    equal = verdicts[0.0].result == "cannot_tell" or abs(verdicts[0.0].change) < FORGIVEN
    right = verdicts[0.05].result == "worse" and equal
    sys.exit(0 if all(row.ok for row in rows) and cost_s <= FIXED_COST_S and right else 1)


def verdict_words(verdict: Verdict) -> str:
    if verdict.low is None or verdict.high is None or verdict.smallest_detectable is None:
        return f"{verdict.result}, {verdict.change:+.2%}"
    ends = f"{verdict.low:+.2%} .. {verdict.high:+.2%}"
    return f"{verdict.result}, {verdict.change:+.2%} ({ends}), smallest detectable {verdict.smallest_detectable:.2%}"


def print_row(row: Row) -> None:
    print(
        f"{row.shape:24} {row.streams:3} streams  TTFT {row.ttft_s * 1e3:7.2f} ms ({row.ttft_error_s * 1e3:+.2f})"
        f"  TPOT {row.tpot_s * 1e3:7.3f} ms ({row.tpot_error:+.2%})"
        f"  lag {row.loop_lag_s * 1e3:.2f} ms  cpu {row.cpu:.0%}  {'ok' if row.ok else 'OUT OF BOUNDS'}"
    )


if __name__ == "__main__":
    main()
