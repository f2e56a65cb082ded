"""The build number of a llama.cpp binary, as ``--version`` and a server's log print it (llamacpp.md section 2)."""

from __future__ import annotations

import re

_NUMBER = re.compile(
    r"\(build (\d{1,9})[,)]"  # --version of newer builds
    r"|\bversion: b?(\d{1,9}) \("  # ... and of older ones
    r"|\bbuild (\d{1,9}) \(\w+\)"  # a server's log
)


def build_number(text: str) -> str | None:
    """The number; None where the text names none, or 0: the binary was built without one."""
    match = _NUMBER.search(text)
    number = next(filter(None, match.groups())) if match else "0"
    return None if number == "0" else number
