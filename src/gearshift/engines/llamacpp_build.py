"""The build number of a llama.cpp binary, as ``--version`` and a server's log print it."""

from __future__ import annotations

import re

_NUMBER = re.compile(
    r"\(build (\d{1,9})[,)]"  # --version of newer builds
    r"|\bversion: b?(\d{1,9}) \("  # ... and of older ones
    r"|\bbuild (\d{1,9}) \(\w+\)"  # a server's log
)
_BUILD_INFO = re.compile(r"b?(\d{1,9})(?:-unknown)?")


def build_number(text: str) -> str | None:
    """The number; None where the text names none, or 0: the binary was built without one."""
    match = _NUMBER.search(text)
    number = next(filter(None, match.groups())) if match else "0"
    return None if number == "0" else number


def build_name(version: str) -> str:
    """``b11434``, as releases are called: of a bare number, or of a server's ``b11434-unknown``, built without git.

    What names a commit, and what is no build of llama.cpp, is returned as it is.
    """
    match = _BUILD_INFO.fullmatch(version)
    return f"b{match[1]}" if match else version


def engine_name(kind: str, version: str | None) -> str:
    """An engine with its version, as people are told of it: ``llama.cpp b11434``, ``vllm 0.32.0``."""
    told = build_name(version) if version and kind == "llama.cpp" else version
    return f"{kind} {told}" if told else kind
