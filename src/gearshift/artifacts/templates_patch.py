"""Template patches: a small unified diff over a pinned base, applied exactly or not at all."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from gearshift.domain.errors import GearshiftError

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@.*")
_NO_NEWLINE = "\\ No newline at end of file"


@dataclass(frozen=True, slots=True)
class _Hunk:
    """Lines ``start`` (from 0) and on must read ``old`` and become ``new``; each with its line end."""

    start: int
    old: tuple[str, ...]
    new: tuple[str, ...]


def make_patch(base: str, edited: str, *, name: str = "chat_template.jinja") -> str:
    """The unified diff that turns ``base`` into ``edited``; "" where they are equal."""
    lines = difflib.unified_diff(_lines(base), _lines(edited), f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}\n" for line in lines)


def apply_patch(base: str, patch: str) -> str:
    """``base`` with every hunk applied where it says, without fuzz.

    Raises GearshiftError where the patch is no unified diff, or was made for another base.
    """
    lines = _lines(base)
    result: list[str] = []
    done = 0
    for hunk in _hunks(patch):
        end = hunk.start + len(hunk.old)
        if hunk.start < done or tuple(lines[hunk.start : end]) != hunk.old:
            raise GearshiftError(
                f"the patch does not fit its base at line {hunk.start + 1}",
                hint="it was made for another revision of the template; fetch the pinned base",
            )
        result += [*lines[done : hunk.start], *hunk.new]
        done = end
    return "".join([*result, *lines[done:]])


def _lines(text: str) -> list[str]:
    r"""Lines at ``\n`` only: a template may hold every other line break inside a string."""
    pieces = text.split("\n")
    return [*(f"{piece}\n" for piece in pieces[:-1]), *([pieces[-1]] if pieces[-1] else [])]


def _hunks(patch: str) -> Iterator[_Hunk]:
    lines = patch.split("\n")
    position = 0
    while position < len(lines):
        head = _HUNK.fullmatch(lines[position])
        position += 1
        if head is None:
            _refuse_unless_header(lines[position - 1], position)
            continue
        old, new = int(head[2] or 1), int(head[4] or 1)
        body, position = _body(lines, position, old, new)
        start = int(head[1]) - 1 if old else int(head[1])  # an empty side names the line before it
        yield _Hunk(start, tuple(_side(body, " -")), tuple(_side(body, " +")))


def _refuse_unless_header(line: str, number: int) -> None:
    if line and not line.startswith(("--- ", "+++ ", "diff ", "index ")):
        raise GearshiftError(
            f"line {number} of the patch is not part of a unified diff: {line[:60]!r}",
            hint="write it with diff -u BASE EDITED",
        )


def _body(lines: list[str], position: int, old: int, new: int) -> tuple[list[str], int]:
    """The marked lines of one hunk, each with its line end, and where the next part begins."""
    body: list[str] = []
    while old > 0 or new > 0:
        if position >= len(lines):
            raise GearshiftError("the patch ends inside a hunk", hint="fetch it again")
        line = lines[position]
        position += 1
        mark = line[:1] or " "
        if mark not in " +-":
            raise GearshiftError(f"line {position} of the patch belongs to no side: {line[:60]!r}")
        old, new = old - (mark in " -"), new - (mark in " +")
        body.append(f"{mark}{line[1:]}\n")
        if lines[position : position + 1] == [_NO_NEWLINE]:
            body[-1] = body[-1].removesuffix("\n")
            position += 1
    return body, position


def _side(body: list[str], marks: str) -> list[str]:
    return [line[1:] for line in body if line[0] in marks]
