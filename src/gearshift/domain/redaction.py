"""Takes out what nobody else should read: names of home folders, keys, passwords in URLs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

HIDDEN = "[redacted]"

_HOME = re.compile(r"(?:/home/[^/\s\"':,]+|/Users/[^/\s\"':,]+|(?<![\w/])/root)(?=/|$|[\s\"':,])")
_TOKENS = re.compile(r"\b(?:sk-[A-Za-z0-9_-]{8,}|hf_[A-Za-z0-9]{8,}|ghp_[A-Za-z0-9]{8,}|nvapi-[A-Za-z0-9_-]{8,})")
_BEARER = re.compile(r"(?i)(\b(?:bearer|basic)\s+)\S+")
_USERINFO = re.compile(r"(?<=://)[^/\s@]+@")
_NAME = r"[\w-]*(?:(?:access|admin|api|auth|master)[_-]?key|secret|password|passwd|token(?!s|i[sz]|_)|credential)[\w-]*"
_ASSIGNED = re.compile(rf"(?i)((?:--)?\b{_NAME}[=:]\s*)[^\s&,;\"']+")
_SECRET_NAME = re.compile(rf"(?i)-*{_NAME}|authorization")


def redacted(value: Any) -> Any:
    """The JSON value without secrets. In a list of words a flag such as ``--api-key`` hides all up to the next flag."""
    if isinstance(value, str):
        return redacted_text(value)
    if isinstance(value, Mapping):
        return {key: _field(str(key), item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return list(_words(value))
    return value


def redacted_text(text: str) -> str:
    """One string without home folders and keys."""
    text = _HOME.sub("~", text)
    text = _USERINFO.sub("", text)
    text = _BEARER.sub(rf"\1{HIDDEN}", text)
    text = _TOKENS.sub(HIDDEN, text)
    return _ASSIGNED.sub(rf"\1{HIDDEN}", text)


def _field(key: str, item: Any) -> Any:
    return HIDDEN if isinstance(item, str) and _SECRET_NAME.fullmatch(key) else redacted(item)


def _words(words: Sequence[Any]) -> Iterator[Any]:
    hide = first = False
    for word in words:
        flag = isinstance(word, str) and word.startswith("-") and not first
        hide = hide and not flag  # a key may itself begin with a dash; a list of keys goes on to the next flag
        yield HIDDEN if hide and isinstance(word, str) else redacted(word)
        first = flag and _SECRET_NAME.fullmatch(word) is not None
        hide = hide or first
