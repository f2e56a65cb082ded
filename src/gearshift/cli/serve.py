"""`gearshift serve`: run the server."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from gearshift.cli.config_option import config_option
from gearshift.cli.session import Session, pass_session
from gearshift.domain.errors import GearshiftError


@click.command("serve")
@config_option("The configuration; else ./gearshift.yaml, ~/.config/gearshift/ or /etc/gearshift/.")
@click.option("--listen", metavar="HOST:PORT", help="Listen here instead of where the file says.")
@click.option("--verbose", "-v", is_flag=True, help="One log line for every request as well.")
@click.option("--check", is_flag=True, help="Check the configuration as `config check` does, and end.")
@pass_session
def command(session: Session, config: Path | None, listen: str | None, *, verbose: bool, check: bool) -> None:
    """Run the server in the foreground.

    SIGHUP reads the configuration again, SIGTERM and Ctrl-C drain and end it, a second one ends it at once. Without
    any configuration a first one is offered, made from the engines and GGUF files found here.
    """
    from gearshift.config import find_config  # noqa: PLC0415 - pydantic, which only this verb and `config` pay for

    found = config or find_config(Path.cwd(), session.env)
    if found is None:
        found = _offered(session)
    if check:
        from gearshift.cli.config import checked  # noqa: PLC0415 - likewise

        checked(session, found, strict=False)
        return
    from gearshift.app import serve  # noqa: PLC0415 - the whole server

    serve(found, env=session.env, listen=listen, verbose=verbose)


def _offered(session: Session) -> Path:
    """A first configuration, written if a person at a terminal says yes. Raises GearshiftError otherwise."""
    from gearshift.cli.starter import starter_text  # noqa: PLC0415 - looks for engines, which takes a moment

    place = Path("gearshift.yaml")
    text = starter_text(session)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        msg = "there is no configuration"
        raise GearshiftError(msg, hint="write a first one: gearshift config init -o gearshift.yaml")
    session.output.say("There is no configuration yet. This one fits what was found here:\n")
    session.output.say(text)
    if not click.confirm(f"Write it to {place} and serve it?", default=True, err=True):
        msg = "there is no configuration"
        raise GearshiftError(msg, hint="write one by hand, or later: gearshift config init")
    place.write_text(text)
    return place
