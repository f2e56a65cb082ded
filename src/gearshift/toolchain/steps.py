"""An installation as a list of commands: what ``--dry-run`` prints is what runs."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class StepProgress:
    """Where a long piece of work is: the step's title, the latest line worth showing, 0..1 where it is known."""

    title: str
    message: str = ""
    fraction: float | None = None


Report = Callable[[StepProgress], None]


@dataclass(frozen=True, slots=True)
class Step:
    """One command of an installation. ``env`` is added to the environment."""

    title: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    or_else: tuple[str, ...] | None = None  # run when ``argv`` fails
    done: Path | None = None  # the step is skipped when this exists

    def __str__(self) -> str:
        """The step as a line for a POSIX shell."""
        words = [f"{name}={shlex.quote(value)}" for name, value in self.env.items()]
        command = shlex.join(self.argv)
        return " ".join([*words, command]) + (f" || {shlex.join(self.or_else)}" if self.or_else else "")


@dataclass(frozen=True, slots=True)
class InstallPlan:
    """Everything an installation does, the folder it makes, and the disk it needs on the way."""

    target: Path
    steps: tuple[Step, ...]
    needs_bytes: int
    command: tuple[str, ...]  # how the installed server is started
