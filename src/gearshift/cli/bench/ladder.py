"""`gearshift bench ladder`."""

from __future__ import annotations

import click

from gearshift.bench.experiments import ladder
from gearshift.bench.outcome import ExperimentResult
from gearshift.bench.runner import Runner
from gearshift.cli.bench.asked import Asked, measuring, requests
from gearshift.cli.bench.place import Place
from gearshift.cli.bench.quantities import DEPTHS, SHARES
from gearshift.cli.bench.running import Question, ask, within_budget
from gearshift.domain.units import IN_TOKENS


@click.command("ladder")
@click.option("--depths", type=DEPTHS, default=ladder.DEFAULT_DEPTHS, metavar="1k,4k,...",
              help=f"Prompt lengths ({IN_TOKENS}); those beyond the context become the deepest that fits.")  # fmt: skip
@click.option("--needle", type=SHARES, default=(), metavar="0.1,0.5,...",
              help="Hide a fact at these shares of each prompt and ask for it.")  # fmt: skip
@measuring(count=requests(1))
def command(asked: Asked, depths: tuple[int, ...], needle: tuple[float, ...]) -> None:
    """What does context cost? Decode, prefill and recall at growing depth.

    Every prompt is new from its first word on, so that no depth is half cached from the one before.
    """

    async def run(place: Place, runner: Runner) -> ExperimentResult:
        plan = ladder.plan(asked.base, depths, context=place.rig.target.context, needles=needle)
        return await runner.run(await within_budget(asked, place, plan), place.told(ladder.conclude))

    ask(asked, Question("ladder", run, ladder.conclude))
