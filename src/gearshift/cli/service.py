"""`gearshift service`: run under the user's systemd."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from gearshift.cli.config_option import config_option
from gearshift.cli.session import Session, pass_session
from gearshift.cli.unit import CARRIED, UNIT_NAME, Unit, unit_text
from gearshift.config import find_config
from gearshift.domain.errors import GearshiftError

_SIZE = re.compile(r"[0-9]+(\.[0-9]+)?[KMGT]?|[0-9]+%|infinity")
SYSTEMCTL_TIMEOUT_S = 30


class SystemdSize(click.ParamType[str]):
    """A limit as systemd writes it."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        if not _SIZE.fullmatch(text):
            self.fail(f"{text!r} is not a limit that systemd knows; write for example 24G or 80%", param, ctx)
        return text


@click.group("service")
def command() -> None:
    """Run the server as a systemd user service."""


def _unit_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """What `show` and `install` share: everything that the unit's text depends on."""
    for option in (
        click.option("--stop-timeout", type=click.IntRange(1), default=120, show_default=True,
                     help="Seconds to drain and stop every engine in before the rest is killed."),
        click.option("--swap-max", type=SystemdSize(), help="MemorySwapMax= of server and engines, such as 8G."),
        click.option("--memory-max", type=SystemdSize(), help="MemoryMax= of server and engines, such as 24G."),
        config_option("The configuration to serve."),
    ):  # fmt: skip
        function = option(function)
    return function


@command.command("show")
@_unit_options
@pass_session
def show(session: Session, /, **options: Any) -> None:
    """Print the unit file that `install` would write."""
    session.output.write(unit_text(_unit(session, **options)), newline=False)


@command.command("install")
@_unit_options
@click.option("--now", is_flag=True, help="Also enable and start it.")
@pass_session
def install(session: Session, /, *, now: bool, **options: Any) -> None:
    """Write the unit file, and with --now start it.

    API keys named by key_env go into gearshift/env below the configuration folder (NAME=value lines, mode 0600).
    """
    place = unit_file(session)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(unit_text(_unit(session, **options)))
    session.output.write(str(place))
    if now:
        _systemctl("daemon-reload")
        _systemctl("enable", "--now", UNIT_NAME)
        session.output.say(f"started; its log: journalctl --user -u {UNIT_NAME} -f")
    else:
        session.output.say(f"to start it: systemctl --user daemon-reload && systemctl --user enable --now {UNIT_NAME}")
    session.output.say("to keep it running while you are logged out: loginctl enable-linger")


@command.command("uninstall")
@pass_session
def uninstall(session: Session) -> None:
    """Stop and disable the service and remove its unit file."""
    place = unit_file(session)
    if not place.exists():
        msg = f"{place} does not exist"
        raise GearshiftError(msg, hint="nothing is installed for this user")
    try:
        _systemctl("disable", "--now", UNIT_NAME)
    finally:  # a systemd that cannot be reached has nothing running to lose
        place.unlink()
        session.output.say(f"removed {place}")
    _systemctl("daemon-reload")


def unit_file(session: Session) -> Path:
    """Where systemd looks for this user's units."""
    return _config_home(session) / "systemd" / "user" / UNIT_NAME


def _config_home(session: Session) -> Path:
    return Path(session.env.get("XDG_CONFIG_HOME") or Path(session.env.get("HOME", "/")) / ".config")


def _unit(
    session: Session, config: Path | None, memory_max: str | None, swap_max: str | None, stop_timeout: int
) -> Unit:
    found = config or find_config(Path.cwd(), session.env)
    if found is None:
        msg = "there is no configuration to serve"
        raise GearshiftError(msg, hint="name one with --config FILE; `gearshift serve` offers a first one")
    return Unit(
        program=program(),
        config=found.absolute(),
        memory_max=memory_max,
        memory_swap_max=swap_max,
        stop_timeout_s=stop_timeout,
        environment={name: session.env[name] for name in CARRIED if session.env.get(name)},
        secrets=_config_home(session) / "gearshift" / "env",
    )


def program() -> tuple[str, ...]:
    """How to start this very installation again: its script, or its Python with the module."""
    script = Path(sys.executable).with_name("gearshift")
    return (str(script),) if script.exists() else (sys.executable, "-m", "gearshift")


def _systemctl(*arguments: str) -> None:
    if shutil.which("systemctl") is None:
        msg = "systemctl is not on PATH"
        raise GearshiftError(msg, hint="this box has no systemd; run `gearshift serve` under your own supervisor")
    words = ["systemctl", "--user", *arguments]
    done = subprocess.run(words, capture_output=True, text=True, timeout=SYSTEMCTL_TIMEOUT_S, check=False)
    if done.returncode:
        msg = f"`{' '.join(words)}` failed: {done.stderr.strip() or done.stdout.strip()}"
        raise GearshiftError(msg)
