"""`gearshift demo`: the product in one command."""

from __future__ import annotations

import click

from gearshift.cli.session import Session, pass_session


@click.command("demo")
@click.option("--keep", is_flag=True, help="Go on serving afterwards, until Ctrl-C.")
@pass_session
def command(session: Session, *, keep: bool) -> None:
    """Swap between variants of a small model and print what happened.

    Gets a llama-server and the 135M-parameter SmolLM2 where they are missing, starts a server of its own with several
    variants, sends real requests to each, and prints what every swap took. It needs no GPU.
    """
    from gearshift.app import demo  # noqa: PLC0415 - the whole server

    raise click.exceptions.Exit(demo(env=session.env, keep=keep, printer=session.output))
