"""The ASGI types and what every face needs: read a header, send a whole answer, notice that the client left."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Header = tuple[bytes, bytes]
Headers = Iterable[Header]


class ClientGoneError(Exception):
    """The client closed its connection; nobody is left to answer."""


def header(headers: Headers, name: bytes) -> bytes | None:
    """The first value of a header; ``name`` in lower case, as ASGI servers give it."""
    for key, value in headers:
        if key == name:
            return value
    return None


async def answer(send: Send, status: int, headers: list[Header], body: bytes) -> None:
    """Send one whole answer; the length is added here."""
    headers = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def until_gone(receive: Receive) -> None:
    """Returns when the client is gone; for a request whose body was read, or a websocket that was not accepted yet."""
    while not (await receive())["type"].endswith(".disconnect"):
        pass
