"""One Gearshift per state folder: a lock that the kernel drops with its holder, however that ends."""

from __future__ import annotations

import fcntl
import os
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from gearshift.domain.errors import GearshiftError
from gearshift.domain.paths import Paths
from gearshift.hardware.processes import command_line, opener_of, read_process
from gearshift.supervisor.state_file import unusable_state

_DYING_S = 5.0  # a killed holder keeps its lock until the kernel has taken it apart
_LIVING_S = 0.5  # a holder that was just killed looks alive until the kernel gets round to it


@dataclass(frozen=True, slots=True)
class Holder:
    """The Gearshift that lives on a state folder. ``deleted``: its lock file was removed while it served."""

    pid: int
    deleted: bool = False

    def __str__(self) -> str:
        command = command_line(self.pid)
        return f"pid {self.pid}" + (f" ({command})" if command else "")


def lock_holder(path: Path) -> Holder | None:
    """Who holds the lock file ``path``, or held what was removed from there; None when nobody is seen to."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return _holder_of_deleted(path)
    try:
        if _try_lock(descriptor, fcntl.LOCK_SH):
            return _holder_of_deleted(path)
        text = _pid_text(descriptor)
        return Holder(int(text)) if text.isdigit() else None
    finally:
        os.close(descriptor)


def _holder_of_deleted(path: Path) -> Holder | None:
    pid = opener_of(f"{path.parent.resolve() / path.name} (deleted)")  # as proc_pid_fd(5) shows it
    return None if pid is None else Holder(pid, deleted=True)


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
            self._acquire(descriptor)
            self._check_deleted()
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return self

    def _acquire(self, descriptor: int) -> None:
        """Take the lock and write our pid into it; a holder that is just dying is waited for."""
        began = time.monotonic()
        while not _try_lock(descriptor):
            holder = _pid_text(descriptor)
            if time.monotonic() - began > (_LIVING_S if _still_lives(holder) else _DYING_S):
                raise self._held_by(holder)
            time.sleep(0.01)
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            raise unusable_state(self._paths, error.strerror) from error

    def _held_by(self, holder: str) -> GearshiftError:
        who = Holder(int(holder)) if holder.isdigit() else "its pid is not known yet"
        msg = f"another Gearshift runs on the state folder {self._paths.state}: {who}"
        return GearshiftError(msg, hint="stop it with `gearshift stop`, or give this one its own GEARSHIFT_HOME")

    def _check_deleted(self) -> None:
        """Raises GearshiftError for a server whose lock was removed: its engines would look like orphans to us."""
        holder = _holder_of_deleted(self._paths.lock)
        if holder is not None:
            msg = f"another Gearshift still serves from {self._paths.state}, which was removed under it: {holder}"
            raise GearshiftError(msg, hint=f"end it first: kill -TERM {holder.pid} (it stops its engines)")

    @property
    def lost(self) -> bool:
        """Whether the lock file was removed or replaced since it was taken."""
        if self._descriptor is None:
            return False
        ours = os.fstat(self._descriptor)
        try:
            return not os.path.samestat(ours, self._paths.lock.stat())
        except OSError:
            return True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The file stays: removing it would let two holders lock two files of one name."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _pid_text(descriptor: int) -> str:
    """What the lock file says of its holder; empty before the holder has written its pid."""
    return os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()


def _try_lock(descriptor: int, kind: int = fcntl.LOCK_EX) -> bool:
    """Lock it if nobody else has; whether that worked."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _still_lives(holder: str) -> bool:
    """A process that is being taken apart has lost its command line already."""
    process = read_process(int(holder)) if holder.isdigit() else None
    return process is not None and process.alive and not command_line(process.pid).startswith("[")
