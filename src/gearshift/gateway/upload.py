"""A request body taken in before its request queues: memory first, then a temporary file.

A client that sends slowly costs a connection and this file until it is done, never a place in a queue or a lease.
Memory stays bounded (`MEMORY_BYTES` an upload); beyond that the body lies in an unnamed temporary file, whose size the
body limit bounds.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Final, Self

from gearshift.edge.asgi import ClientGoneError, Headers, Receive, header
from gearshift.edge.errors import RefusedError
from gearshift.gateway.intake import check_encoding, check_length, too_large

MEMORY_BYTES: Final = 1024**2
_PIECE: Final = 128 * 1024


class Upload:
    """One body: written by ``take`` and ``fill``; once it is whole, read any number of times by ``read``. Close it."""

    def __init__(self, receive: Receive, headers: Headers, limit: int) -> None:
        check_encoding(headers)
        check_length(headers, limit)
        self._declared = header(headers, b"content-length") is not None
        self._receive = receive
        self._limit = limit
        self._file = tempfile.SpooledTemporaryFile(max_size=MEMORY_BYTES)  # noqa: SIM115 - closed by __exit__
        self._size = 0
        self._whole = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    @property
    def whole(self) -> bool:
        """Whether every byte is here."""
        return self._whole

    @property
    def length(self) -> int | None:
        """Bytes so far: of a whole body its length; None of one that is empty and was not announced."""
        return self._size if self._size or self._declared else None

    async def take(self) -> bytes:
        """The next piece as it came from the client, kept for ``read``; b"" at the end.

        Raises ClientGoneError or RefusedError (413, or 507 when there is no room for it).
        """
        if self._whole:
            return b""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        piece: bytes = message.get("body", b"")
        if self._size + len(piece) > self._limit:
            too_large(self._limit, "the body is larger than allowed")
        await self._append(piece)
        self._whole = not message.get("more_body", False)
        return piece

    async def fill(self) -> None:
        """Take all that is left. Raises as ``take`` does."""
        while not self._whole:
            await self.take()

    async def read(self, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """The bytes of a span of the whole body; ``end`` None reads to its end."""
        end = self._size if end is None else min(end, self._size)
        while start < end:
            piece = await self._between(start, min(end, start + _PIECE))
            start += len(piece)
            yield piece

    async def _append(self, piece: bytes) -> None:
        self._size += len(piece)
        try:
            if self._size <= MEMORY_BYTES:
                self._file.write(piece)
            else:
                await asyncio.to_thread(self._file.write, piece)
        except OSError as error:
            why = f"the upload could not be kept on disk: {error.strerror}"
            raise RefusedError(507, "storage_full", why, hint="free space in the temporary folder") from error

    async def _between(self, start: int, stop: int) -> bytes:
        if self._size <= MEMORY_BYTES:
            return self._read(start, stop)
        return await asyncio.to_thread(self._read, start, stop)

    def _read(self, start: int, stop: int) -> bytes:
        self._file.seek(start)
        return self._file.read(stop - start)
