"""One Gearshift per state folder: a lock that the kernel drops with its holder, however that ends."""

from __future__ import annotations

import fcntl
import os
import time
from types import TracebackType
from typing import Self

from gearshift.domain.errors import GearshiftError
from gearshift.domain.paths import Paths
from gearshift.supervisor.processes import command_line, read_process
from gearshift.supervisor.state_file import unusable_state

_DYING_S = 5.0  # a killed holder keeps its lock until the kernel has taken it apart
_LIVING_S = 0.5  # a holder that was just killed looks alive until the kernel gets round to it


class StateLock:
    """Held while the server lives, so that no other one takes its engines for orphans. A context manager."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._descriptor: int | None = None

    def __enter__(self) -> Self:
        """Raises GearshiftError when another Gearshift holds it, or when the state folder cannot be written."""
        try:
            self._paths.state.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._paths.lock, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise unusable_state(self._paths, error.strerror) from error
        try:
            self._take(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return self

    def _take(self, descriptor: int) -> None:
        began = time.monotonic()
        while not _locked(descriptor):
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
            if time.monotonic() - began > (_LIVING_S if _lives(holder) else _DYING_S):
                raise self._taken(holder)
            time.sleep(0.01)
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            raise unusable_state(self._paths, error.strerror) from error

    def _taken(self, holder: str) -> GearshiftError:
        command = command_line(int(holder)) if holder.isdigit() else ""
        who = f"pid {holder}" + (f" ({command})" if command else "")
        msg = f"another Gearshift runs on the state folder {self._paths.state}: {who}"
        return GearshiftError(msg, hint="stop it with `gearshift stop`, or give this one its own GEARSHIFT_HOME")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The file stays: removing it would let two holders lock two files of one name."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lives(holder: str) -> bool:
    """A process that is being taken apart has lost its command line already."""
    process = read_process(int(holder)) if holder.isdigit() else None
    return process is not None and process.alive and not command_line(process.pid).startswith("[")
