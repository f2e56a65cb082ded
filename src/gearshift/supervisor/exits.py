"""Exit codes in words, and the cause of an engine's death where its log names none."""

from __future__ import annotations

import signal
from collections.abc import Sequence

from gearshift.domain.errors import Failure

_SHOWN = 3  # last lines in a cause


def exit_words(code: int | None) -> str:
    """``"exited with status 1"`` or ``"was killed by SIGKILL"``; negative codes are signals, None is unknown."""
    if code is None:
        return "ended in an unknown way"
    if code >= 0:
        return f"exited with status {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was killed by {name}" + (" (the kernel, when memory ran out, or a person)" if name == "SIGKILL" else "")


def cause_of_death(known: Failure | None, code: int | None, last_lines: Sequence[str]) -> Failure:
    """The log's root cause if it has one, else how the process ended and, unless it was SIGKILL, its last lines."""
    if known:
        return known
    words = exit_words(code)
    if code == -signal.SIGKILL:  # it could not write why: its last lines are about something else
        return Failure(f"the engine {words}", fix="see whether memory ran out: journalctl -k --grep=oom")
    tail = " | ".join(line.strip() for line in last_lines[-_SHOWN:])
    return Failure(f"the engine {words}" + (f"; its last lines: {tail}" if tail else ""), line=_last(last_lines))


def _last(lines: Sequence[str]) -> str | None:
    return lines[-1] if lines else None
