"""Processes of ours: how they are marked, signalled and collected."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from gearshift.hardware.processes import Process, read_process

MARKER = "GEARSHIFT_CHILD"  # environment variable of every engine process: "<state folder's hash>-<launch id>"

_PROC = Path("/proc")


def marker_of(pid: int) -> str | None:
    """The value of our marker in its environment, or None (not ours, overwritten, or not readable)."""
    try:
        raw = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return None
    prefix = MARKER.encode() + b"="
    return next(
        (item[len(prefix) :].decode("utf-8", "replace") for item in raw.split(b"\0") if item.startswith(prefix)), None
    )


def send(process: Process, number: int) -> None:
    """Signal this very process: a pid that was used again meanwhile is left alone."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return
    try:
        now = read_process(process.pid)
        if now and now.start == process.start:
            signal.pidfd_send_signal(handle, number)
    except OSError:
        return
    finally:
        os.close(handle)


def collect(pid: int) -> None:
    """Collect a dead child that a subreaper inherited; harmless for anybody else's process."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except OSError:
        return
