"""`gearshift stop`: end the server."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from gearshift.cli.client import NoServerError, SlowServerError
from gearshift.cli.durations import Duration
from gearshift.cli.failure import TimedOutError
from gearshift.cli.session import Session, pass_session
from gearshift.domain.units import format_duration

POLL_S = 0.1


@click.command("stop")
@click.option("--timeout", type=Duration(), help="Stop waiting after this long (exit status 124).")
@pass_session
def command(session: Session, timeout: float | None) -> None:
    """End the server: drain, stop every engine, verify.

    Waits until it is gone.
    """
    began = time.monotonic()
    status = session.admin.get("/status")
    session.admin.call("POST", "/shutdown")
    with session.output.progress() as progress:
        while (current := _after(session, status)) is not None:
            status = current
            progress(_phase(status))
            if timeout is not None and time.monotonic() - began > timeout:
                msg = f"the server (pid {status['pid']}) still runs after {timeout:g} s"
                raise TimedOutError(msg, hint="it goes on stopping; see gearshift ps")
            time.sleep(POLL_S)
    session.output.say(f"the server is stopped ({format_duration(time.monotonic() - began)})")


def _after(session: Session, before: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The status of the server that was asked to end; None when it is gone or another has taken its place."""
    try:
        status: Mapping[str, Any] = session.admin.get("/status")
    except SlowServerError:
        return before
    except NoServerError:
        return before if session.url is None and _lives(before["pid"]) else None
    return status if status["pid"] == before["pid"] else None


def _lives(pid: int) -> bool:
    """Whether a process of this machine still runs: its state folder is free for the next server only after that."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"  # a zombie holds nothing any more


def _phase(status: Mapping[str, Any]) -> str:
    alive = [row["variant"] for row in status["variants"] if row["state"] not in {"stopped", "failed"}]
    return "stopping " + (", ".join(alive) or "the server")
