"""Finding the ``model`` field of a multipart body as it passes (RFC 7578), without keeping what was passed."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from gearshift.domain.variant import Variant
from gearshift.edge.errors import RefusedError
from gearshift.gateway.payload import Outgoing
from gearshift.gateway.routes import Operation
from gearshift.gateway.upload import Upload

_BOUNDARY = re.compile(r'(?i)\bboundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))')
_NAME = re.compile(rb'(?im)^content-disposition:[^\r\n]*?[;\s]name="?([^";\r\n]*)"?')
_LONGEST_PART_HEAD: Final = 16 * 1024
_LONGEST_MODEL: Final = 1024


@dataclass(frozen=True, slots=True)
class Field:
    """A field's value and the span of its bytes in the body."""

    value: str
    start: int
    end: int


class FieldFinder:
    """Fed the body piece by piece until it says where the field is; keeps at most one part's head in memory."""

    def __init__(self, boundary: str, name: str) -> None:
        self._delimiter = b"\r\n--" + boundary.encode("latin-1")
        self._name = name.encode()
        # The body's first delimiter has no line break before it; one put in front makes all of them alike.
        self._buffer = b"\r\n"
        self._base = -2
        self._step = self._seek
        self.field: Field | None = None
        self.ended = False

    def feed(self, piece: bytes) -> bool:
        """Whether the search is over: ``field`` is set, or the body ended without it. Raises RefusedError (400)."""
        self._buffer += piece
        while self.field is None and not self.ended and self._step():
            pass
        return self.field is not None or self.ended

    def _drop(self, count: int) -> None:
        self._buffer = self._buffer[count:]
        self._base += count

    def _seek(self) -> bool:
        """To behind the next delimiter."""
        found = self._buffer.find(self._delimiter)
        if found < 0:
            self._drop(max(0, len(self._buffer) - len(self._delimiter) + 1))
            return False
        self._drop(found + len(self._delimiter))
        self._step = self._head
        return True

    def _head(self) -> bool:
        """Through a part's headers, or to the closing delimiter."""
        if self._buffer.startswith(b"--"):
            self.ended = True
            return False
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            _check_size(self._buffer, _LONGEST_PART_HEAD, "the headers of a part")
            return False
        name = _NAME.search(self._buffer, 0, end)
        # The value may be empty, its delimiter then shares the line break that ends the headers.
        self._drop(end + 2)
        self._step = self._value if name is not None and name[1] == self._name else self._seek
        return True

    def _value(self) -> bool:
        end = self._buffer.find(self._delimiter)
        if end < 0:
            _check_size(self._buffer, _LONGEST_MODEL, "the model field")
            return False
        start = min(2, end)
        text = self._buffer[start:end].decode("utf-8", "replace")
        self.field = Field(text.strip(), self._base + start, self._base + end)
        return False


@dataclass(frozen=True, slots=True)
class UploadPayload:
    """A body that is sent on from a whole upload, its model field rewritten on the way where it has one."""

    upload: Upload
    field: Field | None
    model: str | None
    streams: bool = False

    def outgoing(self, operation: Operation, variant: Variant, served_name: str) -> Outgoing:  # noqa: ARG002 - Payload
        field = self.field
        if field is None or field.value == served_name:
            return Outgoing(self.upload.read(), self.upload.length)
        name = served_name.encode()
        length = self.upload.length
        if length is not None:
            length += len(name) - (field.end - field.start)
        return Outgoing(_spliced(self.upload, field, name), length)


async def multipart_payload(upload: Upload, content_type: str) -> UploadPayload:
    """Read until the model field has passed; the caller takes the rest.

    Raises RefusedError (400, 413) or ClientGoneError.
    """
    boundary = _BOUNDARY.search(content_type)
    if boundary is None:
        raise RefusedError(
            400,
            "invalid_multipart",
            f"Content-Type {content_type!r} names no boundary",
            param="content-type",
            hint="leave the header to the HTTP library, which knows the boundary",
        )
    finder = FieldFinder(boundary[1] or boundary[2], "model")
    while not finder.feed(await upload.take()) and not upload.whole:
        pass
    return UploadPayload(upload, finder.field, finder.field.value if finder.field else None)


async def _spliced(upload: Upload, field: Field, name: bytes) -> AsyncIterator[bytes]:
    async for piece in upload.read(0, field.start):
        yield piece
    yield name
    async for piece in upload.read(field.end):
        yield piece


def _check_size(buffer: bytes, limit: int, what: str) -> None:
    if len(buffer) > limit:
        raise RefusedError(400, "invalid_multipart", f"{what} is longer than {limit} bytes")
