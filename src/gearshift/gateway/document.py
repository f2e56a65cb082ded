"""A JSON object as bytes with the spans of its top-level members, so that an edit touches nothing else.

The heavy step, finding where each value ends, is msgspec's: decoding to ``dict[str, Raw]`` checks the whole document
and yields every value's length, so the walk from member to member costs a few steps a member and none a byte.
A dict holds only the last of duplicate keys; the walk notices that (the lengths no longer fit) and the exact scanner
below takes over.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

import msgspec

from gearshift.edge.errors import RefusedError

_DECODER = msgspec.json.Decoder(dict[str, msgspec.Raw])
_KEY = re.compile(rb'[ \t\n\r]*("(?:[^"\\]|\\.)*")[ \t\n\r]*:[ \t\n\r]*')
_COMMA = ord(",")
_SPACE = re.compile(rb"[ \t\n\r]*")
_SCALAR = re.compile(rb'"(?:[^"\\]|\\.)*"|[^ \t\n\r,\]}]+', re.DOTALL)
_NESTING = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
# The exact scanner looks at every token in Python; duplicate keys in a document this large are refused instead.
_DUPLICATES_LIMIT = 1024**2
# Far above any dialect's, and low enough that walking them holds nobody else up.
_MEMBERS_LIMIT = 1024


class Member(NamedTuple):
    """One top-level member: its decoded key, where the key's quote opens, and the value's span."""

    key: str
    start: int
    value: int
    end: int


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON object's bytes and its top-level members in document order, duplicates included."""

    body: bytes
    members: tuple[Member, ...]
    raw: dict[str, msgspec.Raw]  # the last value of each key, as every JSON parser takes it

    def text(self, key: str) -> str | None:
        """A string member; None when it is absent or null. Raises RefusedError (400) for any other type."""
        raw = self.raw.get(key)
        if raw is None:
            return None
        try:
            return msgspec.json.decode(raw, type=str | None)
        except msgspec.DecodeError:
            raise RefusedError(400, "invalid_type", f"{key!r} must be a string", param=key) from None

    def is_true(self, key: str) -> bool:
        """Whether a member is the literal true."""
        raw = self.raw.get(key)
        return raw is not None and bytes(raw) == b"true"


def parse(body: bytes) -> Document:
    """The document of a request body. Raises RefusedError (400) that says where it stops being a JSON object."""
    try:
        raw = _DECODER.decode(body)
    except msgspec.ValidationError as error:
        message = f"the body must be a JSON object: {str(error).lower()}"
        raise RefusedError(400, "invalid_json", message) from None
    except (msgspec.DecodeError, RecursionError) as error:
        where = f"{error}".removeprefix("JSON is malformed: ").replace("Input data was truncated", "ends too early")
        raise RefusedError(400, "invalid_json", f"invalid JSON: {where}; the body has {len(body)} bytes") from None
    if len(raw) > _MEMBERS_LIMIT:
        _too_many()
    members = _walk(body, raw)
    return Document(body, tuple(_scan(body) if members is None else members), raw)


def _too_many() -> NoReturn:
    message = f"the body has more than {_MEMBERS_LIMIT} top-level members"
    raise RefusedError(400, "too_many_members", message, hint="send one request in a body")


def _walk(body: bytes, raw: dict[str, msgspec.Raw]) -> list[Member] | None:
    """Members by the lengths of their decoded values, or None when those do not tile the document."""
    position = body.index(b"{") + 1
    members: list[Member] = []
    for key, value in raw.items():
        opened = _KEY.match(body, position)
        if opened is None or not _starts_with(body, value, opened.end()):
            return None
        end = opened.end() + len(memoryview(value))
        members.append(Member(key, opened.start(1), opened.end(), end))
        position = _skip_space(body, end)
        if body[position] != _COMMA:
            break
        position += 1
    closed = body[position : position + 1] == b"}" and len(members) == len(raw)
    return members if closed or not raw else None


def _starts_with(body: bytes, value: msgspec.Raw, at: int) -> bool:
    # Any buffer will do at run time; a bytes copy of a large prompt is what this avoids.
    return body.startswith(value, at)


def _scan(body: bytes) -> list[Member]:
    """Every member of a valid JSON object, duplicates too: exact, and too slow for large documents."""
    if len(body) > _DUPLICATES_LIMIT:
        message = f"a top-level key is given twice in a body of {len(body)} bytes"
        raise RefusedError(400, "duplicate_key", message, hint="give each key once")
    position = body.index(b"{") + 1
    members: list[Member] = []
    while opened := _KEY.match(body, position):
        if len(members) == _MEMBERS_LIMIT:
            _too_many()
        end = _value_end(body, opened.end())
        members.append(Member(msgspec.json.decode(opened[1], type=str), opened.start(1), opened.end(), end))
        position = _skip_space(body, end) + 1
    return members


def _value_end(body: bytes, start: int) -> int:
    if body[start : start + 1] not in {b"{", b"["}:
        scalar = _SCALAR.match(body, start)
        return scalar.end() if scalar else start
    depth = 0
    for token in _NESTING.finditer(body, start):
        mark = token[0]
        depth += (mark in {b"{", b"["}) - (mark in {b"}", b"]"})
        if depth == 0:
            return token.end()
    return len(body)


def _skip_space(body: bytes, position: int) -> int:
    match = _SPACE.match(body, position)
    return match.end() if match else position
