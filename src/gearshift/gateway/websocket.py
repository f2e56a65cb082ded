"""A websocket to /upstream/{variant}/...: both directions copied message by message while a lease is held."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from http import HTTPStatus
from typing import Final

import aiohttp

from gearshift.domain.errors import GearshiftError
from gearshift.domain.leasing import Lease
from gearshift.edge.asgi import ClientGoneError, Receive, Scope, Send
from gearshift.edge.errors import RefusedError, body_for
from gearshift.gateway.engine import EngineClient, request_headers
from gearshift.gateway.exchange import GONE, REASON_S
from gearshift.gateway.meter import Figures
from gearshift.gateway.presence import Hold
from gearshift.gateway.relay import engine_gone

# Close codes: RFC 6455, 7.4.1.
_NORMAL: Final = 1000
_GOING_AWAY: Final = 1001
_REFUSED: Final = 1008
_FAILED: Final = 1011
_NO_CODE: Final = 1005  # how the server below says that the client's close named none
_CUT_OFF: Final = 1006  # ... and that there was no close at all
_UNSENDABLE: Final = frozenset({1004, _NO_CODE, _CUT_OFF, 1015})
_OWN_CODES: Final = range(3000, 5000)
# How long an engine may take to answer our close; the lease is held meanwhile.
_CLOSE_S: Final = 2.0


class Socket:
    """The client's end: not accepted, accepted, closed. What `Reply` is to a request of HTTP."""

    __slots__ = ("accepted", "closed", "receive", "scope", "send")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.receive = receive
        self.send = send
        self.accepted = False
        self.closed = False

    @property
    def status(self) -> int:
        """What the client got of HTTP: 101 once it was accepted."""
        return HTTPStatus.SWITCHING_PROTOCOLS if self.accepted else 0

    async def accept(self, protocol: str | None) -> None:
        """Answer the handshake. Raises ClientGoneError, as the next two do."""
        self.accepted = True
        await self._put({"type": "websocket.accept", "subprotocol": protocol})

    async def message(self, data: str | bytes) -> None:
        """Pass one message on."""
        await self._put({"type": "websocket.send", "text" if isinstance(data, str) else "bytes": data})

    async def close(self, code: int) -> None:
        """Say goodbye, once."""
        if not self.closed:
            self.closed = True
            await self._put({"type": "websocket.close", "code": code})

    async def fail(self, error: GearshiftError) -> None:
        """The error in the form that still fits: an answer to the handshake, a plain refusal of it, or a close code."""
        if self.accepted:
            await self.close(_FAILED)
        elif "websocket.http.response" in self.scope.get("extensions", {}):
            status, headers, body = body_for(error, "openai")
            await self._put({"type": "websocket.http.response.start", "status": status, "headers": headers})
            await self._put({"type": "websocket.http.response.body", "body": body})
        else:
            await self.close(_REFUSED)

    async def _put(self, message: dict[str, object]) -> None:
        try:
            await self.send(message)
        except OSError as error:  # ASGI's word for a client that is not there any more
            raise ClientGoneError from error


async def bridge(socket: Socket, engines: EngineClient, lease: Lease, target: str, figures: Figures) -> int:
    """Connect to the engine, accept the client, copy until either side closes; the code to close the client with.

    The lease is released and the engine's end closed on every way out, with the client's code where there was one.
    Raises ClientGoneError; InterruptedLeaseError when the engine went without a close; RefusedError when it will have
    no websocket there.
    """
    hold = Hold(lease)
    with hold:
        engine = await _connect(socket.scope, engines, lease, target)
        code = _GOING_AWAY
        try:
            await socket.accept(engine.protocol)
            code = await _first_of(_upwards(socket, engine), _downwards(engine, socket, figures))
        except GONE as error:  # the engine: of a client, Socket says so itself
            raise engine_gone(lease.variant.id, error, await hold.reason(REASON_S), begun=True) from error
        finally:
            await engine.close(code=code)
        return code


async def _connect(scope: Scope, engines: EngineClient, lease: Lease, target: str) -> aiohttp.ClientWebSocketResponse:
    headers = request_headers(pair for pair in scope["headers"] if not pair[0].startswith(b"sec-websocket-"))
    headers.update(lease.upstream.headers)
    url = lease.upstream.endpoint.base_url + target
    protocols = tuple(scope.get("subprotocols", ()))
    patience = aiohttp.ClientWSTimeout(ws_close=_CLOSE_S)
    try:
        return await engines.session.ws_connect(
            url, headers=headers, protocols=protocols, max_msg_size=0, timeout=patience
        )
    except GONE as error:
        if isinstance(error, aiohttp.WSServerHandshakeError) and error.status >= HTTPStatus.BAD_REQUEST:
            message = f"the engine of {lease.variant.id} answers {target} with status {error.status}, not a websocket"
            raise RefusedError(error.status, "websocket_refused", message) from error
        raise engine_gone(lease.variant.id, error, None, begun=False) from error


async def _upwards(socket: Socket, engine: aiohttp.ClientWebSocketResponse) -> int:
    """To the engine; the code that the client closed with. Raises ClientGoneError when it went without a close."""
    while (message := await socket.receive())["type"] == "websocket.receive":
        text: str | None = message.get("text")
        await (engine.send_str(text) if text is not None else engine.send_bytes(message["bytes"]))
    socket.closed = True
    code: int = message.get("code", _NO_CODE)
    if code == _CUT_OFF:
        raise ClientGoneError
    return _sendable(code)


async def _downwards(engine: aiohttp.ClientWebSocketResponse, socket: Socket, figures: Figures) -> int:
    """To the client; the code that the engine closed with. Raises ConnectionError when it went without a close."""
    while (message := await engine.receive()).type in {aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY}:
        figures.events += 1
        await socket.message(message.data)
    if message.type is aiohttp.WSMsgType.CLOSE:
        return _sendable(engine.close_code or _NO_CODE)
    raise message.data if isinstance(message.data, Exception) else ConnectionResetError("the websocket was cut off")


def _sendable(code: int) -> int:
    """A close code as it may stand on the wire."""
    if code in _OWN_CODES or (_NORMAL <= code < 1015 and code not in _UNSENDABLE):  # noqa: PLR2004 - RFC 6455, 7.4
        return code
    return _NORMAL if code == _NO_CODE else _GOING_AWAY


async def _first_of(*sides: Coroutine[object, object, int]) -> int:
    """Run both directions until one ends; the other is cancelled. What the first returned, or raised, counts."""
    tasks = [asyncio.ensure_future(side) for side in sides]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        # Its own end, once the other has ended, is of no interest: cancelled, or failed on the same broken pipe.
        await asyncio.gather(*tasks, return_exceptions=True)
    return next(task for task in tasks if task in ended).result()
