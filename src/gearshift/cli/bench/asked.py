"""What every measuring verb is asked: where, what kind of requests, how often, and what to do with the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click

from gearshift.bench.plan import CellPlan
from gearshift.cli.bench.quantities import JsonObject, Tokens
from gearshift.cli.durations import Duration
from gearshift.cli.session import Session, pass_session
from gearshift.domain.errors import GearshiftError

_TEXTS = ("prose", "code", "json", "reasoning", "ids")


@dataclass(frozen=True, slots=True)
class Asked:
    """The shared options. ``base`` is the cell that a verb varies."""

    session: Session
    base: CellPlan
    url: str | None
    model: str | None
    key_env: str | None
    beside_traffic: bool
    budget_s: float | None
    resume: bool
    keep: bool
    as_json: bool

    @property
    def key(self) -> str | None:
        """The key to send. Raises GearshiftError where its variable is not set."""
        if self.key_env is None:
            return None
        if not (key := self.session.env.get(self.key_env)):
            msg = f"{self.key_env} is not set"
            raise GearshiftError(msg, hint=f"export {self.key_env}=...")
        return key


def where(function: Callable[..., Any]) -> Callable[..., Any]:
    """Options that say which server."""
    for option in reversed(_WHERE):
        function = option(function)
    return function


def measuring(
    *, output: int = 128, requests: int | None = 4, repeats: int = 3
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The shared options with a verb's defaults; the verb takes an `Asked` and its own options.

    ``requests`` None: the verb has its own way to say how many.
    """

    def decorated(function: Callable[..., None]) -> Callable[..., None]:
        @wraps(function)
        def collected(session: Session, **given: Any) -> None:
            shared = {name: given.pop(name, None) for name in _SHARED}
            function(_asked(session, **shared), **given)

        wrapped: Callable[..., Any] = pass_session(collected)
        for option in reversed([*_WHERE, *_shape(output, requests, repeats), *_DEALINGS]):
            wrapped = option(wrapped)
        return wrapped

    return decorated


_WHERE = (
    click.option("--url", metavar="URL", help="Any OpenAI-compatible server, with or without /v1."),
    click.option("--model", metavar="NAME", help="The model or variant; may be left out where there is one."),
    click.option("--key-env", metavar="VARIABLE", help="The environment variable that holds the server's key."),
    click.option("--beside-traffic", is_flag=True, help="Measure through the gateway, without the exclusive lease."),
)
_DEALINGS = (
    click.option("--budget", "budget_s", type=Duration(), help="Plan what fits: fewer repeats, then fewer cells."),
    click.option("--resume", is_flag=True, help="Take cells that are stored already instead of measuring again."),
    click.option("--no-store", is_flag=True, help="Do not keep the results."),
    click.option("--json", "as_json", is_flag=True, help="One JSON document."),
)
_SHARED = (
    "url", "model", "key_env", "beside_traffic", "budget_s", "resume", "no_store", "as_json", "output", "requests",
    "repeats", "text", "prompts", "api", "natural_end", "extra",
)  # fmt: skip


def _shape(output: int, requests: int | None, repeats: int) -> list[Callable[..., Any]]:
    counted = [] if requests is None else [
        click.option("--requests", type=click.IntRange(1), default=requests, show_default=True, help="In each trial.")
    ]  # fmt: skip
    return [
        click.option("--output", type=Tokens(), default=output, show_default=True, help="Tokens of each answer."),
        *counted,
        click.option("--repeats", type=click.IntRange(1), default=repeats, show_default=True, help="Trials a cell."),
        click.option("--text", type=click.Choice(_TEXTS), default="prose", show_default=True, help="Kind of prompts."),
        click.option("--prompts", metavar="FILE", help="Prompts from ShareGPT, Spec-Bench or JSON lines instead."),
        click.option("--api", type=click.Choice(("chat", "completions", "responses")), default="chat",
                     show_default=True, help="The endpoint."),
        click.option("--natural-end", is_flag=True, help="Let answers end by themselves: for acceptance figures."),
        click.option("--extra", type=JsonObject(), metavar="JSON", help="Further keys of every request."),
    ]  # fmt: skip


def _asked(session: Session, *, budget_s: float | None, resume: bool, no_store: bool, **given: Any) -> Asked:
    return Asked(
        session=session,
        base=_base(given),
        url=given["url"],
        model=given["model"],
        key_env=given["key_env"],
        beside_traffic=given["beside_traffic"],
        budget_s=budget_s,
        resume=resume,
        keep=not no_store,
        as_json=given["as_json"],
    )


def _base(given: Mapping[str, Any]) -> CellPlan:
    file = given["prompts"]
    return CellPlan(
        "",
        output=given["output"],
        requests=given["requests"] or 1,
        trials=given["repeats"],
        kind="file" if file else given["text"],
        file=file,
        dialect="completions" if given["text"] == "ids" and not file else given["api"],
        exact=not given["natural_end"],
        extra=given["extra"] or {},
    )
