"""The few failures Gearshift names. One place (edge, cli) turns them into HTTP bodies and exit codes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ProblemSeverity = Literal["error", "warning"]


class GearshiftError(Exception):
    """Something a person can act on: ``message`` says what and where, ``hint`` what to do.

    ``retry_after_s`` is when the same request may fare better; None = nothing is known of that.
    """

    def __init__(self, message: str, *, hint: str | None = None, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a file: its place, the value at fault and the way out."""

    message: str
    path: str  # dotted place inside the document: models.qwen.variants.int8.args; "" for all of it
    line: int | None = None  # 1-based
    hint: str | None = None
    severity: ProblemSeverity = "error"
    file: Path | None = None

    def __str__(self) -> str:
        where = ":".join(str(part) for part in (self.file, self.line) if part is not None)
        text = ": ".join(part for part in (where, self.path, self.message) if part)
        return f"{text} ({self.hint})" if self.hint else text


class ConfigError(GearshiftError):
    """A configuration that cannot be used; carries every problem found, not the first."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


class UnknownModelError(GearshiftError):
    """A request names no model, variant or alias of ours."""


class UnknownIdError(GearshiftError):
    """There is no lease or job of that id: it has ended and was forgotten, or never was."""


class QueueFullError(GearshiftError):
    """The variant's queue is at its limit; ``retry_after_s`` comes from the known load time."""


class NotResidentError(GearshiftError):
    """A side request asked for a variant that is not resident; side requests never cause a swap."""


class NotRunningError(GearshiftError):
    """An operator asked of a variant what only a running one can tell."""


class DrainingError(GearshiftError):
    """Gearshift is stopping, or the variant left the configuration while the request waited."""


class LoadFailedError(GearshiftError):
    """A variant could not be made resident; ``failure`` holds the engine's root cause."""

    def __init__(
        self, message: str, *, failure: Failure, hint: str | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message, hint=hint or failure.fix, retry_after_s=retry_after_s)
        self.failure = failure


class StopIncompleteError(GearshiftError):
    """A stopped engine left something behind: processes, a port, or memory, each named."""


class InterruptedLeaseError(GearshiftError):
    """The engine behind a lease died or the lease was revoked before the answer was whole."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an engine failed: the root cause in a sentence, the verbatim log line, what to change."""

    cause: str
    line: str | None = None
    fix: str | None = None
