"""Plain YAML scalars by the 1.2 core rules: `on`, `no` and `12:30` are text, as engine flags need them."""

from __future__ import annotations

import re
from math import isfinite

PlainScalar = str | int | float | bool | None

_WORDS: dict[str, PlainScalar] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_INTEGER = re.compile(r"[-+]?[0-9]{1,19}")
_BASED = re.compile(r"0x[0-9a-fA-F]{1,16}|0o[0-7]{1,21}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?")


def plain_scalar(text: str) -> PlainScalar:
    """The value of an unquoted scalar; what no rule claims is text. Infinities and longer integers stay text."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _BASED.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text) and isfinite(number := float(text)):
        return number
    return text
