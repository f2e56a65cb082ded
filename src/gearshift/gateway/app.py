"""The gateway as one raw ASGI callable: routes, the gate, error answers, and the life of the engine client."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Final
from urllib.parse import parse_qs

from gearshift.domain.errors import GearshiftError
from gearshift.domain.leasing import Broker
from gearshift.domain.records import Sink
from gearshift.domain.settings import Settings
from gearshift.edge import origin
from gearshift.edge.asgi import Receive, Scope, Send
from gearshift.edge.errors import RefusedError
from gearshift.edge.gate import admit
from gearshift.edge.keys import Client
from gearshift.gateway import routes
from gearshift.gateway.document import parse
from gearshift.gateway.engine import EngineClient
from gearshift.gateway.exchange import Desk, Exchange
from gearshift.gateway.exposition import CONTENT_TYPE, exposition
from gearshift.gateway.intake import read_body
from gearshift.gateway.meter import Figures
from gearshift.gateway.models import model_card, model_list
from gearshift.gateway.payload import JsonPayload, Payload, RawPayload
from gearshift.gateway.presence import ClientGoneError
from gearshift.gateway.relay import Relay
from gearshift.gateway.reply import Reply
from gearshift.gateway.stamps import Clock, Stamps
from gearshift.gateway.tally import Tally

# A client that reads nothing must not keep a failed request alive for the sake of its error event.
_FAREWELL_S: Final = 5.0


def create_gateway(
    broker: Broker,
    settings: Callable[[], Settings],
    sink: Sink,
    *,
    tally: Tally | None = None,
    clock: Clock = time.monotonic,
) -> Gateway:
    """The data path's ASGI app. ``settings`` is asked per request, so a reload takes effect at once."""
    return Gateway(Desk(broker, settings, sink, EngineClient(), clock, tally or Tally()))


class Gateway:
    """Routes requests. Serves ``http`` and ``lifespan`` scopes; a composing app may call ``close`` itself instead."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        else:
            msg = f"the gateway does not serve {scope['type']} connections"
            raise ValueError(msg)

    async def close(self) -> None:
        """Close the connections to engines. Idempotent."""
        await self._desk.engines.close()

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while (message := await receive())["type"] != "lifespan.shutdown":
            await send({"type": f"{message['type']}.complete"})
        await self.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        settings = self._desk.settings()
        reply = Reply(send, origin.cors_headers(scope["headers"], settings))
        try:
            await self._serve(scope, receive, reply, settings)
        except ClientGoneError:
            return
        except GearshiftError as error:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FAREWELL_S):
                    await reply.fail(error, routes.dialect_of(scope["path"]))

    async def _serve(self, scope: Scope, receive: Receive, reply: Reply, settings: Settings) -> None:
        path: str = scope["path"]
        if (allowed := origin.preflight(scope, settings)) is not None:
            await reply.answer(204, allowed, b"")
        elif path == "/health":
            origin.check_host(scope, settings)
            await reply.json(200, {"status": "ok"})
        elif path.startswith("/upstream/"):
            client = admit(scope, settings, side_effects=True)
            await self._upstream(scope, receive, reply, client)
        else:
            client = admit(scope, settings)
            await self._dispatch(scope, receive, reply, client)

    async def _dispatch(self, scope: Scope, receive: Receive, reply: Reply, client: Client) -> None:
        path: str = scope["path"]
        operation = routes.find(path)
        if operation is not None:
            _check_method(scope, routes.methods(path))
            await self._operate(scope, receive, reply, client, operation)
            return
        _check_method(scope, ("GET", "HEAD"))
        if path in {"/v1/models", "/models"}:
            await reply.json(200, model_list(self._desk.settings(), self._desk.broker.statuses()))
        elif path.startswith("/v1/models/"):
            name = path.removeprefix("/v1/models/")
            await reply.json(200, model_card(name, self._desk.broker))
        elif path == "/metrics":
            text = await exposition(self._desk.tally, self._desk.broker, self._desk.engines)
            await reply.answer(200, [(b"content-type", CONTENT_TYPE)], text)
        else:
            raise RefusedError(404, "not_found", f"nothing is served at {path}")

    async def _operate(
        self, scope: Scope, receive: Receive, reply: Reply, client: Client, operation: routes.Operation
    ) -> None:
        stamps = Stamps(scope["path"], self._desk.clock(), client=client.name)
        payload = await self._payload(scope, receive)
        relay = Relay(self._desk.engines, scope, operation, reply, Figures(), self._desk.clock)
        route = self._desk.broker.resolve(payload.model)
        await Exchange(self._desk, relay, stamps, target_of(scope)).run(receive, payload, route)

    async def _payload(self, scope: Scope, receive: Receive) -> Payload:
        headers = scope["headers"]
        body = await read_body(receive, headers, self._desk.settings().body_limit_bytes)
        if scope["method"] == "GET":
            return RawPayload(model_from_query(scope["query_string"]))
        return JsonPayload(parse(body))

    async def _upstream(self, scope: Scope, receive: Receive, reply: Reply, client: Client) -> None:
        raise RefusedError(404, "not_found", "nothing is served here")


def target_of(scope: Scope) -> str:
    """Path and query exactly as the client sent them."""
    target: str = scope["raw_path"].decode("latin-1")
    query: bytes = scope["query_string"]
    return f"{target}?{query.decode('latin-1')}" if query else target


def model_from_query(query: bytes) -> str | None:
    """``?model=`` for what has no body."""
    return parse_qs(query.decode("latin-1")).get("model", [None])[0]


def _check_method(scope: Scope, allowed: tuple[str, ...]) -> None:
    if scope["method"] not in allowed:
        message = f"{scope['path']} answers {' and '.join(allowed)}, not {scope['method']}"
        raise RefusedError(405, "method_not_allowed", message)
