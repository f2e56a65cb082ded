"""`gearshift bench prefix`."""

from __future__ import annotations

import click

from gearshift.bench.experiments import prefix as question
from gearshift.bench.outcome import ExperimentResult
from gearshift.bench.runner import Runner
from gearshift.cli.bench.asked import Asked, measuring, requests
from gearshift.cli.bench.place import Place
from gearshift.cli.bench.quantities import Tokens
from gearshift.cli.bench.running import Question, ask, within_budget
from gearshift.domain.units import IN_TOKENS


@click.command("prefix")
@click.option("--prefix", type=Tokens(), default=2048, show_default=True, help=f"Shared by all prompts; {IN_TOKENS}.")
@click.option("--suffix", type=Tokens(), default=128, show_default=True, help="Tokens that differ.")
@measuring(output=32, count=requests(4))
def command(asked: Asked, prefix: int, suffix: int) -> None:
    """What does the prefix cache save, and does it really work?

    The same lengths twice: all prompts different, then one prefix that the warm-up has put into the cache. A cell
    that was not as cold or as cached as it should be is invalid.
    """

    async def run(place: Place, runner: Runner) -> ExperimentResult:
        plan = question.plan(asked.base, prefix=prefix, suffix=suffix, requests=asked.base.requests)
        return await runner.run(await within_budget(asked, place, plan), question.conclude)

    ask(asked, Question("prefix", run, question.conclude))
