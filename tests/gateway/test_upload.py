from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from gearshift.edge.asgi import ClientGoneError
from gearshift.edge.errors import RefusedError
from gearshift.gateway.upload import MEMORY_BYTES, Upload

pytestmark = pytest.mark.anyio


class Script:
    """A client that sends its pieces when told to, then leaves."""

    def __init__(self, pieces: Sequence[bytes], *, whole: bool = True) -> None:
        self.messages: list[dict[str, Any]] = [
            {"type": "http.request", "body": piece, "more_body": not whole or number < len(pieces) - 1}
            for number, piece in enumerate(pieces)
        ]
        self.go = asyncio.Semaphore(0)

    async def receive(self) -> dict[str, Any]:
        await self.go.acquire()
        return self.messages.pop(0) if self.messages else {"type": "http.disconnect"}

    def release(self, count: int) -> None:
        for _ in range(count):
            self.go.release()


async def collected(upload: Upload, start: int = 0, end: int | None = None) -> bytes:
    return b"".join([piece async for piece in upload.read(start, end)])


@pytest.mark.parametrize("size", [10, MEMORY_BYTES])
async def test_a_whole_body_is_read_in_any_span_and_again(size: int) -> None:
    script = Script([b"a" * size, b"b" * size, b"c" * size])
    script.release(3)
    with Upload(script.receive, [], 10 * MEMORY_BYTES) as upload:
        await upload.fill()
        assert upload.whole
        assert upload.length == 3 * size
        assert await collected(upload) == b"a" * size + b"b" * size + b"c" * size
        assert await collected(upload, size - 1, 2 * size + 1) == b"a" + b"b" * size + b"c"


async def test_a_client_that_leaves_in_the_middle_is_told_of() -> None:
    script = Script([b"a"], whole=False)
    script.release(2)
    with Upload(script.receive, [], 100) as upload:
        with pytest.raises(ClientGoneError):
            await upload.fill()
        assert not upload.whole


async def test_take_tells_of_a_client_that_left() -> None:
    script = Script([], whole=False)
    script.release(1)
    with Upload(script.receive, [], 100) as upload, pytest.raises(ClientGoneError):
        await upload.take()


async def test_a_full_disk_is_said_as_such() -> None:
    script = Script([b"a"])
    script.release(1)
    with open("/dev/full", "r+b", buffering=0) as full, Upload(script.receive, [], 100) as upload:  # noqa: ASYNC230, PTH123 - a device
        upload._file.close()
        upload._file = full  # type: ignore[assignment] # a file all the same
        with pytest.raises(RefusedError) as caught:
            await upload.take()
    assert caught.value.code == "storage_full"
    assert "No space left" in caught.value.message


@pytest.mark.parametrize("headers", [[(b"content-length", b"101")], [(b"content-encoding", b"gzip")]])
async def test_what_is_refused_is_refused_before_reading(headers: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(RefusedError):
        Upload(Script([]).receive, headers, 100)
