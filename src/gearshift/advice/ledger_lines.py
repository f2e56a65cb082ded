"""llama-server's `--log-jsonl` as the lines it prints without it, so that one parser reads both."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_LEVELS = {"debug": "D", "info": "I", "warn": "W", "warning": "W", "error": "E"}


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line to parse, and the line as it stands in the log."""

    text: str
    verbatim: str


def log_lines(lines: Iterable[str]) -> Iterator[LogLine]:
    """Each line as it is, but a JSON record of a message as the stamped lines of that message."""
    for line in lines:
        record = _record(line)
        if record is None:
            yield LogLine(line, line)
            continue
        for text in record:
            yield LogLine(text, line)


def _record(line: str) -> list[str] | None:
    """The lines of a ``{"type": "log", "time": µs, "level": …, "msg": …}``; None for anything else."""
    if not line.startswith('{"'):
        return None
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or not isinstance(record.get("msg"), str):
        return None
    stamp = _stamp(record.get("time"), record.get("level"))
    return [f"{stamp}{text}" for text in record["msg"].rstrip("\n").split("\n")]


def _stamp(time: object, level: object) -> str:
    """Minutes, seconds, milliseconds, microseconds and a letter, as llama-server prints them; empty without a time."""
    if not isinstance(time, int) or isinstance(time, bool) or time < 0:
        return ""
    seconds, fraction = divmod(time, 1_000_000)
    minutes, seconds = divmod(seconds, 60)
    letter = _LEVELS.get(str(level), "I")
    return f"{minutes}.{seconds:02}.{fraction // 1000:03}.{fraction % 1000:03} {letter} "
