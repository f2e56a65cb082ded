"""Log lines as engines, routers and wrappers write them, reduced to what the engine said."""

from __future__ import annotations

import re

NUMBER = r"\d{1,12}(?:\.\d{1,9})?"  # bounded: no line, however broken, makes an infinite or unreadable number
COUNT = r"\d[\d,]{0,15}"  # with thousands separators
_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|[@-Z\\-_])")
_WRAPPER = re.compile(
    r"(?:data: )?"  # a router's event stream
    r"(?:\[pod/\S+\] )?"  # kubectl logs --prefix
    r"(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S+ [^\s:\[]+\[\d+\]: )?"  # journalctl, syslog
    r"(?:[A-Za-z][\w.-]{0,80} +\| )?"  # docker compose logs
    r"(?:(?P<date>\d{4}-\d\d-\d\d)[T ](?P<time>\d\d:\d\d:\d\d)(?:[.,]\d+)?Z?(?: \|)? (?!- ))?"  # a tool's clock
)
_VLLM_PROCESS = re.compile(
    r"\((?:APIServer|EngineCore\w*|(?:Vllm)?Worker[\w-]*) pid=\d+\) (?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d "
)


def without_colours(line: str) -> str:
    """The line without terminal escapes and the end of its line."""
    return (_ANSI.sub("", line) if "\x1b" in line else line).rstrip()


def wrapper_clock(line: str) -> tuple[str, str] | None:
    """Date and time of day that a wrapper put before a line without colours; None where there is none."""
    match = _WRAPPER.match(line)
    return (match["date"], match["time"]) if match and match["date"] else None


def clean(line: str) -> str:
    """The line without colours and whatever a wrapper put before it.

    A progress bar repaints its line after carriage returns: only the last state is kept. A line of another process
    that was printed behind an unfinished bar is that process's line.
    """
    line = without_colours(line)
    if "\r" in line:
        line = line.rsplit("\r", 1)[1]
    line = _WRAPPER.sub("", line, count=1)
    if "%|" in line or "% Completed |" in line:
        behind = [match.start() for match in _VLLM_PROCESS.finditer(line)]
        return line[behind[-1] :] if behind else line
    return line
