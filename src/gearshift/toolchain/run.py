"""Running steps: output to a log file and, condensed, to a progress callback; a failure shows its last lines."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path

from gearshift.domain.errors import GearshiftError
from gearshift.domain.units import format_bytes
from gearshift.toolchain.steps import InstallPlan, Report, Step, StepProgress

_NINJA = re.compile(r"\[(\d+)/(\d+)\] (.*)")
_TELLING = re.compile(r"(?:Collecting|Downloading|Installing|Building|Successfully|Processing|--) ?")
_TAIL = 15  # last lines of a failed step shown with the error


def run_plan(plan: InstallPlan, env: Mapping[str, str], log: Path, report: Report) -> None:
    """Run the steps in order, skipping those that are done. Raises GearshiftError naming the step that failed."""
    require_space(plan)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("", encoding="utf-8")
    for number, step in enumerate(plan.steps, 1):
        if step.done is None or not step.done.exists():
            _run_step(step, f"[{number}/{len(plan.steps)}] {step.title}", env, log, report)


def require_space(plan: InstallPlan) -> None:
    """Raise GearshiftError when the disk that takes the installation is too full for it."""
    folder = next(parent for parent in (plan.target, *plan.target.parents) if parent.exists())
    free = shutil.disk_usage(folder).free
    if free < plan.needs_bytes:
        message = f"{folder} has {format_bytes(free)} free, the installation needs {format_bytes(plan.needs_bytes)}"
        raise GearshiftError(message, hint="free disk space, or set GEARSHIFT_ENGINES to a folder on another disk")


@contextmanager
def exclusive(lock: Path, report: Report) -> Iterator[None]:
    """Hold a lock file, so that two installations do not build into the same folder; waits for the other one."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        try:
            flock(file, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            report(StepProgress("wait for another installation"))
            flock(file, LOCK_EX)  # released when the file is closed, also by a crash
        yield


def _run_step(step: Step, title: str, env: Mapping[str, str], log: Path, report: Report) -> None:
    report(StepProgress(title))
    environment = {**env, **step.env}
    code, tail = _run(step.argv, title, environment, log, report)
    if code and step.or_else:
        report(StepProgress(title, "that failed; trying the other source"))
        code, tail = _run(step.or_else, title, environment, log, report)
    if code:
        message = f"{title} failed with exit code {code}:\n" + "\n".join(tail)
        raise GearshiftError(message, hint=f"the whole output is in {log}")


def _run(
    argv: Sequence[str], title: str, env: Mapping[str, str], log: Path, report: Report
) -> tuple[int, tuple[str, ...]]:
    """Exit code and last lines of a command; 127 when it cannot be started."""
    tail: deque[str] = deque(maxlen=_TAIL)
    with log.open("a", encoding="utf-8") as file:
        file.write(f"$ {' '.join(argv)}\n")
        try:
            with _child(argv, env) as child:
                for raw in child.stdout or ():
                    line = raw.decode("utf-8", "replace").rstrip()
                    file.write(line + "\n")
                    tail.append(line)
                    _tell(line, title, report)
        except OSError as error:
            return 127, (str(error),)
    return child.returncode, tuple(tail)


@contextmanager
def _child(argv: Sequence[str], env: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A command in a session of its own: when ours is interrupted (Ctrl-C), compilers and all end with it."""
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    child = subprocess.Popen(argv, env=env, stdin=null, stdout=pipe, stderr=subprocess.STDOUT, start_new_session=True)
    with child:
        try:
            yield child
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGTERM)
            raise


def _tell(line: str, title: str, report: Report) -> None:
    if match := _NINJA.match(line):
        report(StepProgress(title, os.path.basename(match[3]), int(match[1]) / int(match[2])))  # noqa: PTH119 - not a path
    elif _TELLING.match(line):
        report(StepProgress(title, line[:100]))
