"""The command itself: finds verbs without importing them, and turns every failure into a message and an exit code."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypeVar

import click

import gearshift
from gearshift.cli.failure import shown_failures
from gearshift.cli.lazy import LazyGroup
from gearshift.cli.output import Output
from gearshift.cli.session import Session

# Help lines stand here so that `gearshift --help` imports no verb; a test keeps them equal to the verbs' own.
VERBS: Mapping[str, str] = {
    "serve": "Run the server in the foreground.",
    "ps": "Show every variant with its state, memory and load.",
    "load": "Make a variant resident, swapping like a request would.",
    "unload": "Drain and stop a variant, or all of them.",
    "reload": "Have the server read its configuration again.",
    "stop": "End the server: drain, stop every engine, verify.",
    "logs": "Print an engine's log.",
    "run": "Chat with a model through the running server.",
    "plan": "Say whether a variant fits, how long, and how fast it can be.",
    "ledger": "Read engines' start-up logs: where memory went, what failed.",
    "bench": "Measure a server honestly: depth, load, speculation, caching, swaps.",
    "results": "List, show, compare and export stored measurements.",
    "report": "Write measurements up as a page or a forum post.",
    "doctor": "Find what is wrong or risky, and say what to do about it.",
    "lock": "Pin variants: revisions, file hashes, engine versions and templates.",
    "pull": "Fetch exactly the files a lock names, and compare each with it.",
    "verify": "Compare files, templates and engines with a lock, byte by byte.",
    "config": "Check, show, describe and import configurations.",
    "engine": "Install, list and remove engines.",
    "demo": "Swap between variants of a small model and print what happened.",
    "service": "Run the server as a systemd user service.",
    "completion": "Print a shell completion script.",
}


class Verbs(LazyGroup):
    """The verbs of the command itself; whatever they raise is shown here."""

    def invoke(self, ctx: click.Context) -> Any:
        with shown_failures():
            return super().invoke(ctx)


T = TypeVar("T")


@click.group(
    cls=Verbs,
    package="gearshift.cli",
    verbs=VERBS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit status: 0 done, 1 failed, 2 wrong usage or configuration, 124 timeout, 130 interrupted.",
)
@click.option("--url", envvar="GEARSHIFT_URL", help="A server elsewhere; needs GEARSHIFT_OPERATOR_KEY.", metavar="URL")
@click.option("--quiet", "-q", is_flag=True, help="Print data and errors only.")
@click.version_option(gearshift.__version__, "--version", "-V", message="gearshift %(version)s")
@click.pass_context
def root(ctx: click.Context, url: str | None, *, quiet: bool) -> None:
    """One OpenAI-compatible endpoint that swaps between every way to run a model on your own GPUs."""
    env = dict(os.environ)
    ctx.color = False if env.get("NO_COLOR") else None  # None: by whether it is printed to a terminal
    ctx.obj = Session(env=env, output=Output(quiet=quiet), url=url)
