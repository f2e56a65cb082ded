"""The keeper: a small program that starts one engine and does not leave before the last process of its tree is gone.

Run as ``python -I -S keeper.py FD`` on the standard library alone (nothing of Gearshift is importable there). ``FD``
is a stream socket whose other end only Gearshift holds. Messages are marshalled dictionaries, each after its size in
four bytes: marshal is built in, both ends are the same interpreter, and json costs the keeper a third of its start.

In:  ``{"argv", "env", "cwd", "grace_s", "detaches"}`` once, then any number of ``{"stop": signal, "grace_s"}``.
Out: ``{"pid"}`` or ``{"error"}``, ``{"exit": code}`` when the engine itself is gone (negative = signal),
     ``{"killed": n}`` when SIGKILL was needed, ``{"empty": true}`` when the tree is.

Why it is certain: the keeper is a child subreaper, so whatever a descendant does (new session, new name, double fork,
another environment), once its parent is dead it is a child of the keeper. A keeper without children has no tree.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False  # as typing has it; importing typing takes longer than the rest of the keeper's start
if TYPE_CHECKING:
    from typing import Any, NoReturn

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
ORPHAN_GRACE_S = 1.0  # for processes that outlive their engine, which was their only reason to be
KILL_RETRY_S = 0.005  # between looks for processes forked while the last ones were being killed
RETRY_SHARE, SLOWEST_RETRY_S = 0.05, 0.5  # what a driver holds on to may take minutes to die, and a look reads /proc


def parents() -> dict[int, int]:
    """Parent pid of every process, from one pass over /proc."""
    found = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib costs the keeper a third of its start
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as stat:  # noqa: PTH123 - likewise
                    found[int(name)] = int(stat.read().rpartition(b")")[2].split()[1])
            except OSError:  # gone meanwhile
                continue
    return found


def descendants(root: int) -> list[int]:
    """Pids of the processes below ``root``, parents before their children."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents().items():
        children.setdefault(parent, []).append(pid)
    found, level = [], [root]
    while level:
        level = [child for pid in level for child in children.get(pid, [])]
        found += level
    return found


def pack(message: dict[str, Any]) -> bytes:
    """One message as bytes."""
    data = marshal.dumps(message)
    return len(data).to_bytes(4, "big") + data


def unpack(inbox: bytes) -> tuple[list[dict[str, Any]], bytes]:
    """The whole messages in ``inbox``, and the rest of it."""
    messages = []
    while len(inbox) >= 4 and len(inbox) >= (end := 4 + int.from_bytes(inbox[:4], "big")):  # noqa: PLR2004 - see pack
        messages.append(marshal.loads(inbox[4:end]))  # noqa: S302 - from our own parent or child, over a private socket
        inbox = inbox[end:]
    return messages, inbox


def prctl(option: int, value: int) -> None:
    """Set one property of this process by the call of that name (2). Raises OSError."""
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl failed")


class Keeper:
    """One engine's life, seen from its parent."""

    def __init__(self, control: int) -> None:
        self.control = control
        self.inbox = b""
        self.engine: int | None = None  # its pid; 0 once it is collected
        self.orphaned = False  # Gearshift is gone
        self.grace_s = 5.0  # what the tree gets when Gearshift dies
        self.detaches = False  # the program is allowed to leave its server behind, as daemons do
        self.kill_at: float | None = None  # a stop is under way; SIGKILL from then on
        self.killed = 0

    def run(self) -> None:
        """Start the engine, then watch until no process of its tree is left."""
        wakeup, noise = os.pipe()
        os.set_blocking(noise, False)
        signal.set_wakeup_fd(noise, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while self.engine is None:
            if not self._listen():
                return
        poll = select.poll()  # select(2) ends at descriptor 1023; a busy Gearshift hands down a higher one
        poll.register(wakeup, select.POLLIN)
        poll.register(self.control, select.POLLIN)
        while self._reap():
            ready = [descriptor for descriptor, _ in poll.poll(self._patience())]
            if wakeup in ready:
                os.read(wakeup, 4096)
            if self.control in ready and not self._listen():
                self.orphaned = True
                poll.unregister(self.control)
                self._stop(signal.SIGTERM, self.grace_s)
            if self.kill_at is not None and time.monotonic() >= self.kill_at:
                self._kill()
        self._tell({"empty": True})

    def _listen(self) -> bool:
        """Take in what Gearshift says; False when it is gone."""
        try:
            data = os.read(self.control, 1 << 20)
        except OSError:
            data = b""
        messages, self.inbox = unpack(self.inbox + data)
        for message in messages:
            if "stop" in message:
                self._stop(message["stop"], message["grace_s"])
            else:
                self._start(message)
        return bool(data)

    def _tell(self, message: dict[str, Any]) -> None:
        data = pack(message)
        try:
            while data:
                data = data[os.write(self.control, data) :]
        except OSError:  # Gearshift is gone; the end of the socket says so to `_listen`
            return

    def _start(self, job: dict[str, Any]) -> None:
        """Fork and exec; the pipe closes on exec, or brings the error."""
        self.grace_s, self.detaches = job["grace_s"], job["detaches"]
        reader, writer = os.pipe()
        self.engine = os.fork()
        if self.engine == 0:
            become_engine(job, writer)
        os.close(writer)
        with os.fdopen(reader) as failure:
            error = failure.read()
        self._tell({"error": error} if error else {"pid": self.engine})

    def _stop(self, how: int, grace_s: float) -> None:
        """Signal the whole tree once; a later order can only shorten the grace."""
        due = time.monotonic() + grace_s
        if self.kill_at is None and grace_s > 0:
            for pid in descendants(os.getpid()):
                send(pid, how)
        self.kill_at = due if self.kill_at is None else min(self.kill_at, due)

    def _kill(self) -> None:
        """SIGKILL what is there now; what it forked meanwhile comes up for adoption and is met at the next look."""
        tree = descendants(os.getpid())
        for pid in tree:
            send(pid, signal.SIGKILL)
        if not self.killed:
            self._tell({"killed": len(tree)})
        self.killed += len(tree)

    def _patience(self) -> float | None:
        """Milliseconds until the next look is due; the longer ago SIGKILL was sent, the rarer the looks."""
        if self.kill_at is None:
            return None
        left = self.kill_at - time.monotonic()
        return 1000 * max(KILL_RETRY_S, left, min(-left * RETRY_SHARE, SLOWEST_RETRY_S))

    def _reap(self) -> bool:
        """Collect the dead; False when there is no child left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.engine:
                self._tell({"exit": os.waitstatus_to_exitcode(status)})
                self.engine = 0
                if self._lives() and not self.detaches:
                    self._stop(signal.SIGTERM, ORPHAN_GRACE_S)

    @staticmethod
    def _lives() -> bool:
        """Whether any child is left, without collecting it."""
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        return True


def become_engine(job: dict[str, Any], failure: int) -> NoReturn:
    """In the forked child: a session of its own, SIGKILL if the keeper dies first, then the engine's program."""
    try:
        keeper = os.getppid()
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != keeper:  # it died before the line above
            os._exit(1)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        if job["cwd"]:
            os.chdir(job["cwd"])
        os.execvpe(job["argv"][0], job["argv"], job["env"])  # noqa: S606 - no shell is meant
    except OSError as error:
        os.write(failure, f"{error.strerror}: {error.filename or job['argv'][0]}".encode())
    except ValueError as error:  # a NUL byte in an argument
        os.write(failure, str(error).encode())
    os._exit(127)


def send(pid: int, number: int) -> None:
    """Signal a process that may be gone already; a pid read microseconds ago is not another's yet."""
    try:
        os.kill(pid, number)
    except OSError:
        return


def main() -> None:
    """Run one keeper. Signals that are meant for Gearshift are ignored: a keeper ends when its tree has ended."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    control = int(sys.argv[1])
    os.set_inheritable(control, False)  # noqa: FBT003 - the call's own signature
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    Keeper(control).run()
    os._exit(0)  # the interpreter's own farewell would take longer than all of the above


if __name__ == "__main__":
    main()
