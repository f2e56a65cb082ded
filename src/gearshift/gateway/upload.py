"""A request body taken in while it is sent on: memory first, then a temporary file.

The client's bytes are read as fast as they come, whether or not an engine is there yet, so a client that leaves is
noticed while its request is queued. Memory stays bounded (`MEMORY_BYTES` an upload); beyond that the body lies in an
unnamed temporary file, whose size the body limit bounds.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Final, Self

from gearshift.edge.asgi import ClientGoneError, Headers, Receive, header, until_gone
from gearshift.edge.errors import RefusedError
from gearshift.gateway.intake import check_encoding, check_length, too_large

MEMORY_BYTES: Final = 1024**2
_PIECE: Final = 128 * 1024


class Upload:
    """One body: written by ``take`` and ``drain``, read any number of times by ``read``. Close it."""

    def __init__(self, receive: Receive, headers: Headers, limit: int) -> None:
        check_encoding(headers)
        check_length(headers, limit)
        declared = header(headers, b"content-length")
        self.length = int(declared) if declared is not None and declared.isdigit() else None
        self._receive = receive
        self._limit = limit
        self._file = tempfile.SpooledTemporaryFile(max_size=MEMORY_BYTES)  # noqa: SIM115 - closed by __exit__
        self._size = 0
        self._whole = False
        self._grown = asyncio.Event()
        self._seeking = asyncio.Lock()  # one file position is shared by the writer and the reader

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
        try:
            await self._at(self._size, piece)
        except OSError as error:
            why = f"the upload could not be kept on disk: {error.strerror}"
            raise RefusedError(507, "storage_full", why, hint="free space in the temporary folder") from error
        self._size += len(piece)
        self._whole = not message.get("more_body", False)
        self._grown.set()
        return piece

    async def drain(self) -> None:
        """Take what is left, then wait; returns when the client is gone. Raises RefusedError (413)."""
        try:
            while not self._whole:
                await self.take()
        except ClientGoneError:
            return
        await until_gone(self._receive)

    async def read(self, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """The bytes of a span, each as soon as it is here; ``end`` None reads to the end of the body."""
        position = start
        while end is None or position < end:
            if position >= self._size:
                if self._whole:
                    return
                self._grown.clear()
                await self._grown.wait()
                continue
            stop = min(self._size, position + _PIECE, end if end is not None else self._size)
            piece = await self._between(position, stop)
            position += len(piece)
            yield piece

    async def _at(self, position: int, piece: bytes) -> None:
        async with self._seeking:
            if position + len(piece) <= MEMORY_BYTES:
                self._write(position, piece)
            else:
                await asyncio.to_thread(self._write, position, piece)

    async def _between(self, start: int, stop: int) -> bytes:
        async with self._seeking:
            if self._size <= MEMORY_BYTES:
                return self._read(start, stop)
            return await asyncio.to_thread(self._read, start, stop)

    def _write(self, position: int, piece: bytes) -> None:
        self._file.seek(position)
        self._file.write(piece)

    def _read(self, start: int, stop: int) -> bytes:
        self._file.seek(start)
        return self._file.read(stop - start)
