"""Starting keepers, and the spare one that is kept ahead, so that no launch waits for an interpreter to start."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_KEEPER = Path(__file__).with_name("keeper.py")
_LEAVE_S = 5.0  # an idle keeper leaves in a millisecond once its socket closes


@dataclass(frozen=True, slots=True)
class IdleKeeper:
    """A keeper waiting for its job. ``control`` is our end of its socket, ``output`` what its engine will write to."""

    process: subprocess.Popen[bytes]
    control: socket.socket
    output: int

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def dismiss(self) -> None:
        """Let it go unused, and collect it."""
        self.control.close()
        os.close(self.output)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_LEAVE_S)


def spawn_keeper() -> IdleKeeper:
    """Some 2 ms of fork and exec on the caller's thread; the interpreter starts on its own time. Raises OSError."""
    reader, writer = os.pipe()
    try:
        process, control = keeper_writing_to(writer)
    except OSError:
        os.close(reader)
        raise
    finally:
        os.close(writer)
    return IdleKeeper(process, control, reader)


def keeper_writing_to(output: int) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """A keeper and our end of its socket; it and its tree write to this descriptor. Raises OSError."""
    ours, theirs = socket.socketpair()
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_KEEPER), str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()
    return process, ours


class SpareKeeper:
    """The one spare keeper. Taking it never waits; ``prepare`` puts the next one in its place."""

    def __init__(self) -> None:
        self._spare: IdleKeeper | None = None

    def prepare(self) -> None:
        """Have a living spare. One that cannot be started is met again, and told, by the launch that needs it."""
        if self._spare is not None and self._spare.alive:
            return
        self.close()
        with suppress(OSError):
            self._spare = spawn_keeper()

    def take(self) -> IdleKeeper:
        """The spare, or a fresh one where there is none or it was killed. Raises OSError."""
        spare, self._spare = self._spare, None
        if spare is None:
            return spawn_keeper()
        if not spare.alive:
            spare.dismiss()
            return spawn_keeper()
        return spare

    def close(self) -> None:
        spare, self._spare = self._spare, None
        if spare is not None:
            spare.dismiss()
