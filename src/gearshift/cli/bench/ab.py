"""`gearshift bench ab`."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import click

from gearshift.bench.experiments import ab
from gearshift.bench.outcome import ExperimentResult
from gearshift.bench.runner import Runner
from gearshift.cli.bench.asked import Asked, measuring, requests
from gearshift.cli.bench.place import Place
from gearshift.cli.bench.quantities import JsonObject, Tokens
from gearshift.cli.bench.running import Question, ask, within_budget
from gearshift.domain.units import IN_TOKENS

_METRICS = ("decode_tok_s", "output_tok_s", "ttft_s")


@click.command("ab")
@click.argument("a")
@click.argument("b", required=False)
@click.option("--b-extra", type=JsonObject(), metavar="JSON", help="More keys for the body of B's requests only.")
@click.option(
    "--metric", type=click.Choice(_METRICS), default="decode_tok_s", show_default=True, help="Figure to compare."
)
@click.option(
    "--input", "depth", type=Tokens(), default=512, show_default=True, help=f"Length of each prompt; {IN_TOKENS}."
)
@click.option("--streams", type=click.IntRange(1), default=1, show_default=True, help="Requests at once.")
@measuring(count=requests(4), trials=ab.DEFAULT_PAIRS)
def command(
    asked: Asked, a: str, b: str | None, b_extra: dict[str, Any] | None, metric: ab.Metric, depth: int, streams: int
) -> None:
    """Is B better than A? Interleaved pairs and a verdict.

    A and B are variants of the running Gearshift, models at --url, or two URLs. To compare one engine flag, give it to
    a variant that `extends:` the other. Without B it is A against A with --b-extra in its requests. --repeats is the
    number of pairs.
    """
    if b is None and not b_extra:
        msg = "one side alone is no comparison: name B, or give --b-extra"
        raise click.UsageError(msg)
    names = {a: a, b or f"{a} with {json.dumps(b_extra)}": b or a}
    if len(names) == 1:
        msg = f"both sides are {a!r}"
        raise click.UsageError(msg)

    async def run(place: Place, runner: Runner) -> ExperimentResult:
        base = replace(asked.base, depth=depth, concurrency=streams, requests=max(asked.base.requests, streams))
        left, right = (replace(base, setting=setting) for setting in names)
        right = replace(right, extra={**right.extra, **(b_extra or {})})
        plan = await within_budget(asked, place, ab.plan(left, right, pairs=base.trials))
        return await ab.run(runner, plan, metric=metric)

    ask(asked, Question("ab", run, lambda cells: ab.conclude(cells, metric=metric), names))
