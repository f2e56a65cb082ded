"""`gearshift bench saturate`."""

from __future__ import annotations

from dataclasses import replace

import click

from gearshift.bench.experiments import saturate
from gearshift.bench.outcome import ExperimentResult
from gearshift.bench.runner import Runner
from gearshift.cli.bench.asked import Asked, measuring, requests
from gearshift.cli.bench.place import Place
from gearshift.cli.bench.quantities import Tokens
from gearshift.cli.bench.running import Question, ask, within_budget
from gearshift.cli.durations import Duration
from gearshift.domain.units import IN_TOKENS


@click.command("saturate")
@click.option("--ttft", type=Duration(), default=2.0, show_default="2s", help="Goal: longest time to the first token.")
@click.option("--tpot", type=Duration(), help="Goal: longest time per token, such as 50ms.")
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), default=0.5, show_default=True,
              help="First rate, requests a second.")  # fmt: skip
@click.option("--factor", type=click.FloatRange(min=1, min_open=True), default=1.5, show_default=True,
              help="What each next rate is multiplied by.")  # fmt: skip
@click.option("--steps", type=click.IntRange(1), default=10, show_default=True, help="Most rates to try.")
@click.option(
    "--input", "depth", type=Tokens(), default=512, show_default=True, help=f"Length of each prompt; {IN_TOKENS}."
)
@measuring(count=requests(20), trials=1)
def command(asked: Asked, ttft: float, tpot: float | None, rate: float, factor: float, steps: int, depth: int) -> None:
    """How much traffic does it take within limits of latency?

    An open loop: requests come at random moments whether or not earlier ones are done, and the rate rises until fewer
    than 95 % of them are within the limits. Waiting to be sent counts. --requests are those of the first rate; faster
    ones have as many more, so that requests come equally long.
    """
    goal = saturate.Goal(ttft, tpot)

    async def run(place: Place, runner: Runner) -> ExperimentResult:
        base = replace(asked.base, depth=depth)
        plan = saturate.plan(base, first_rate=rate, factor=factor, most=steps)
        return await saturate.run(runner, await within_budget(asked, place, plan), goal)

    ask(asked, Question("saturate", run, lambda cells: saturate.conclude(cells, goal)))
