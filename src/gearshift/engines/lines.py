"""Log lines as engines, routers and wrappers write them, reduced to what the engine said."""

from __future__ import annotations

import re

NUMBER = r"\d{1,12}(?:\.\d{1,9})?"  # bounded: no line, however broken, makes an infinite or unreadable number
COUNT = r"\d[\d,]{0,15}"  # with thousands separators
_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|[@-Z\\-_])")
_WRAPPER = re.compile(
    r"^(?:data: )?"  # a router's event stream
    r"(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?Z?(?: \|)? (?!- ))?"  # a container tool's clock
)


def clean(line: str) -> str:
    """The line without colours, event-stream prefix and a wrapper's time stamp (llamacpp.md section 4.3 g).

    A progress bar repaints its line after carriage returns: only the last state is kept.
    """
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    line = line.rstrip()
    if "\r" in line:
        line = line.rsplit("\r", 1)[1]
    if line[:4].isdigit() or line.startswith("data: "):
        return _WRAPPER.sub("", line, count=1)
    return line
