"""What the fake engine does to its own process and to the children it forks."""

import os
import signal
import sys
import time

from fakes.engine.options import Options
from fakes.engine.say import say

PR_SET_NAME = 15  # linux/prctl.h


def wipe_environment(options: Options) -> None:
    """Run again with an empty environment: what a marker in it is worth against engines that rewrite theirs."""
    if options.environment_wipe and os.environ.keys() - {"LC_CTYPE"}:  # which Python itself sets in an empty one
        os.execve(sys.executable, [sys.executable, "-S", "-E", *sys.argv], {})  # noqa: S606 - no shell is meant


def fork_grandchild(options: Options) -> int | None:
    """Fork before any thread runs; returns its pid (of the one that lives, when it forks twice)."""
    if not options.fork_grandchild:
        return None
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        if options.grandchild_double_fork and os.fork():
            os._exit(0)
        _live_as_grandchild(options, write_end)
    os.close(write_end)
    if options.grandchild_double_fork:
        os.waitpid(child, 0)
    with os.fdopen(read_end) as reader:
        return int(reader.read())


def _live_as_grandchild(options: Options, write_end: int) -> None:
    if options.grandchild_setsid:
        os.setsid()
    if options.grandchild_ignores_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if options.grandchild_rename:
        rename(options.grandchild_rename)
    os.write(write_end, str(os.getpid()).encode())
    os.close(write_end)
    while True:
        time.sleep(3600)


def rename(name: str) -> None:
    """Overwrite comm and, in place, the argv block that /proc/PID/cmdline shows."""
    import ctypes  # noqa: PLC0415 - 10 ms that most starts do not pay

    raw = name.encode()
    ctypes.CDLL(None).prctl(PR_SET_NAME, raw, 0, 0, 0)
    with open("/proc/self/stat", "rb") as stat:  # noqa: PTH123 - pathlib costs 10 ms here
        fields = stat.read().rpartition(b")")[2].split()
    start, end = int(fields[45]), int(fields[46])  # arg_start, arg_end: fields 48 and 49 of proc(5)
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, raw, min(len(raw), end - start - 1))


def serve_until_told(options: Options) -> None:
    """Block the main thread until SIGTERM or SIGINT, then leave as the script says."""
    if options.ignore_sigterm:
        while True:
            time.sleep(3600)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    say("srv  operator(): cleaning up before exit...")
    time.sleep(options.stop_seconds)
    os._exit(0)


def compute() -> None:
    """Use about a third of a core, as an engine that feeds a GPU does."""
    while True:
        end = time.thread_time() + 0.01
        while time.thread_time() < end:
            pass
        time.sleep(0.02)


def prepare_signals(options: Options) -> None:
    """Before the first thread: all threads block what the main thread waits for."""
    if options.ignore_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    else:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})


def die(exit_code: int) -> None:
    """Leave at once; a negative code is a death by that signal."""
    sys.stdout.flush()
    if exit_code < 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {-exit_code})
        signal.raise_signal(-exit_code)  # to this thread: one sent to the process would race the exit below
    os._exit(exit_code)
