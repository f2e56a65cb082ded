"""`gearshift bench concurrency`."""

from __future__ import annotations

from dataclasses import replace

import click

from gearshift.bench.experiments import concurrency
from gearshift.bench.outcome import ExperimentResult
from gearshift.bench.runner import Runner
from gearshift.cli.bench.asked import Asked, measuring
from gearshift.cli.bench.place import Place
from gearshift.cli.bench.quantities import LEVELS, Tokens
from gearshift.cli.bench.running import Question, ask, within_budget
from gearshift.domain.units import IN_TOKENS


@click.command("concurrency")
@click.option("--levels", type=LEVELS, default=(1, 2, 4, 8), metavar="1,4,8", help="Streams at once.")
@click.option(
    "--input", "depth", type=Tokens(), default=512, show_default=True, help=f"Length of each prompt; {IN_TOKENS}."
)
@click.option(
    "--requests", "count", type=click.IntRange(1), help="Requests of each trial; by default 4, or the level if higher."
)
@measuring()
def command(asked: Asked, levels: tuple[int, ...], depth: int, count: int | None) -> None:
    """How does it behave under several streams, each and in total?"""

    async def run(place: Place, runner: Runner) -> ExperimentResult:
        plan = concurrency.plan(replace(asked.base, depth=depth), levels, requests=count)
        return await runner.run(await within_budget(asked, place, plan), place.told(concurrency.conclude))

    ask(asked, Question("concurrency", run, concurrency.conclude))
