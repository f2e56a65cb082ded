"""A websocket to /upstream/{variant}/...: both directions copied message by message while a lease is held."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import aiohttp

from gearshift.domain.errors import GearshiftError, InterruptedLeaseError
from gearshift.domain.leasing import Lease
from gearshift.edge.asgi import Receive, Scope, Send
from gearshift.edge.errors import body_for
from gearshift.gateway.engine import EngineClient, request_headers
from gearshift.gateway.presence import Hold
from gearshift.gateway.relay import engine_gone

_GOING_AWAY = 1001
_ENGINE_FAILED = 1011
_REFUSED = 1008


async def refuse(scope: Scope, send: Send, error: GearshiftError) -> None:
    """Answer the handshake with the error where the server below can, else with a plain refusal."""
    if "websocket.http.response" in scope.get("extensions", {}):
        status, headers, body = body_for(error, "openai")
        await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": body})
    else:
        await send({"type": "websocket.close", "code": _REFUSED})


async def bridge(scope: Scope, receive: Receive, send: Send, engines: EngineClient, lease: Lease, target: str) -> None:
    """Connect to the engine, accept the client, copy until either side closes; the lease is released.

    Raises InterruptedLeaseError before the client was accepted; afterwards failures are close codes.
    """
    accepted = False
    try:
        with Hold(lease):
            engine = await _connect(scope, engines, lease, target)
            try:
                await send({"type": "websocket.accept", "subprotocol": engine.protocol})
                accepted = True
                await _first_of(_upwards(receive, engine), _downwards(engine, send))
            finally:
                await engine.close()
    except InterruptedLeaseError:
        if not accepted:
            raise
        await send({"type": "websocket.close", "code": _ENGINE_FAILED})


async def _connect(scope: Scope, engines: EngineClient, lease: Lease, target: str) -> aiohttp.ClientWebSocketResponse:
    headers = request_headers(pair for pair in scope["headers"] if not pair[0].startswith(b"sec-websocket-"))
    headers.update(lease.upstream.headers)
    url = lease.upstream.endpoint.base_url + target
    protocols = tuple(scope.get("subprotocols", ()))
    try:
        return await engines.session.ws_connect(url, headers=headers, protocols=protocols, max_msg_size=0)
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise engine_gone(lease.variant.id, error, None, begun=False) from error


async def _upwards(receive: Receive, engine: aiohttp.ClientWebSocketResponse) -> None:
    while (message := await receive())["type"] == "websocket.receive":
        text: str | None = message.get("text")
        await (engine.send_str(text) if text is not None else engine.send_bytes(message["bytes"]))


async def _downwards(engine: aiohttp.ClientWebSocketResponse, send: Send) -> None:
    while True:
        message = await engine.receive()
        if message.type is aiohttp.WSMsgType.TEXT:
            await send({"type": "websocket.send", "text": message.data})
        elif message.type is aiohttp.WSMsgType.BINARY:
            await send({"type": "websocket.send", "bytes": message.data})
        else:
            code = engine.close_code if message.type is aiohttp.WSMsgType.CLOSE else _ENGINE_FAILED
            await send({"type": "websocket.close", "code": code or _GOING_AWAY})
            return


async def _first_of(*sides: Awaitable[None]) -> None:
    """Run both directions until one ends; the other is cancelled."""
    tasks = [asyncio.ensure_future(side) for side in sides]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
