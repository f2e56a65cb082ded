"""What every measuring verb is asked: where, what kind of requests, how often, and what to do with the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click

from gearshift.bench.plan import CellPlan
from gearshift.cli.bench.quantities import JsonObject, Tokens
from gearshift.cli.durations import Duration
from gearshift.cli.plan_options import Parsed
from gearshift.cli.session import Session, pass_session
from gearshift.domain.errors import GearshiftError
from gearshift.planner import Gpu, parse_gpu

_TEXTS = ("prose", "code", "json", "reasoning", "ids")
_DIALECTS = ("chat", "completions", "responses")


@dataclass(frozen=True, slots=True)
class Asked:
    """The shared options. ``base`` is the cell that a verb varies; ``card`` what ceilings are computed for."""

    session: Session
    base: CellPlan
    url: str | None = None
    model: str | None = None
    key_env: str | None = None
    card: Gpu | None = None
    beside_traffic: bool = False
    budget_s: float | None = None
    resume: bool = False
    keep: bool = True
    as_json: bool = False

    @property
    def key(self) -> str | None:
        """The key to send. Raises GearshiftError where its variable is not set."""
        if self.key_env is None:
            return None
        if not (key := self.session.env.get(self.key_env)):
            msg = f"{self.key_env} is not set"
            raise GearshiftError(msg, hint=f"export {self.key_env}=...")
        return key

    @property
    def gateway_key(self) -> str | None:
        """The key for requests through a Gearshift: the one that is named, else from elsewhere the operator's."""
        here = self.session.admin.server.socket_path is not None
        return self.key or (None if here else self.session.env.get("GEARSHIFT_OPERATOR_KEY"))


Option = Callable[[Any], Any]
Verb = Callable[..., None]

KEY = click.option("--key-env", metavar="VARIABLE", help="The environment variable that holds the server's key.")
BESIDE = click.option("--beside-traffic", is_flag=True, help="Measure even while others' requests are served.")
WHERE: Sequence[Option] = (
    click.option("--url", metavar="URL", help="Any OpenAI-compatible server, with or without /v1."),
    click.option("--model", metavar="NAME", help="The model or variant; may be left out where there is only one."),
    KEY,
    click.option(
        "--gpu",
        "card",
        type=Parsed("NAME|GiB:GB/s", parse_gpu),
        help="Card to compute the ceiling for; by default this box's.",
    ),
    click.option("--beside-traffic", is_flag=True, help="Measure through the gateway, without the exclusive lease."),
)
BUDGET = click.option(
    "--budget", "budget_s", type=Duration(), help="Time limit: plans fewer repeats, then fewer cells."
)
RESUME = click.option("--resume", is_flag=True, help="Take stored cells instead of measuring them again.")
KEPT: Sequence[Option] = (
    click.option("--no-store", is_flag=True, help="Do not keep the results."),
    click.option("--json", "as_json", is_flag=True, help="One JSON document."),
)


def repeats(default: int) -> Option:
    """``--repeats``: trials of a cell."""
    return click.option(
        "--repeats", type=click.IntRange(1), default=default, show_default=True, help="Trials of each cell."
    )


def requests(default: int) -> Option:
    """``--requests``: of a trial."""
    return click.option(
        "--requests", type=click.IntRange(1), default=default, show_default=True, help="Requests of each trial."
    )


def asks(*options: Option) -> Callable[[Verb], Verb]:
    """These options, given to the verb as an `Asked`; what is none of its options is passed on as it is."""

    def decorated(verb: Verb) -> Verb:
        @wraps(verb)
        def collected(session: Session, **given: Any) -> None:
            shared = {name: given.pop(name) for name in _SHARED & given.keys()}
            verb(_asked(session, **shared), **given)

        wrapped: Callable[..., Any] = pass_session(collected)
        for option in reversed(options):
            wrapped = option(wrapped)
        return wrapped

    return decorated


def measuring(*, output: int = 128, count: Option | None = None, trials: int = 3) -> Callable[[Verb], Verb]:
    """The options of a verb that sends requests of one shape; ``count`` is how it says how many."""
    counted = [] if count is None else [count]
    return asks(*WHERE, *_shape(output), *counted, repeats(trials), BUDGET, RESUME, *KEPT)


_SHARED = {
    "url", "model", "key_env", "card", "beside_traffic", "budget_s", "resume", "no_store", "as_json",
    "output", "requests", "repeats", "text", "prompts", "api", "natural_end", "burst", "extra",
}  # fmt: skip
_OF_CELL = ("output", "requests", "repeats", "text", "prompts", "api", "natural_end", "burst", "extra")


def _shape(output: int) -> Sequence[Option]:
    return (
        click.option("--output", type=Tokens(), default=output, show_default=True, help="Tokens of each answer."),
        click.option("--text", type=click.Choice(_TEXTS), default="prose", show_default=True, help="Kind of prompts."),
        click.option("--prompts", metavar="FILE", help="Prompts from ShareGPT, Spec-Bench or JSON lines instead."),
        click.option("--api", type=click.Choice(_DIALECTS), default="chat", show_default=True, help="The endpoint."),
        click.option("--natural-end", is_flag=True, help="Let answers end by themselves: for acceptance figures."),
        click.option("--burst", is_flag=True, help="Start all streams at once, not spread over one first token."),
        click.option("--extra", type=JsonObject(), metavar="JSON", help="More keys for the body of every request."),
    )


def _asked(session: Session, *, no_store: bool, **given: Any) -> Asked:
    cell = {name: given.pop(name) for name in _OF_CELL if name in given}
    return Asked(session, _base(**cell), keep=not no_store, **given)


def _base(
    *, output: int = 128, requests: int = 4, repeats: int = 3, text: str = "prose", prompts: str | None = None,
    api: str = "chat", **more: Any,
) -> CellPlan:  # fmt: skip
    ids = text == "ids" and prompts is None
    shape: dict[str, Any] = {"kind": "file" if prompts else text, "dialect": "completions" if ids else api}
    return CellPlan(
        "",
        output=output,
        requests=requests,
        trials=repeats,
        file=prompts,
        exact=not more.get("natural_end", False),
        burst=more.get("burst", False),
        extra=more.get("extra") or {},
        **shape,
    )
