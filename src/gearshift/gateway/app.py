"""The gateway as one raw ASGI callable: routes, the gate, error answers, and the life of the engine client."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import parse_qs

from gearshift.domain.errors import GearshiftError
from gearshift.domain.leasing import Broker
from gearshift.domain.records import Sink
from gearshift.domain.settings import Settings
from gearshift.edge import origin
from gearshift.edge.asgi import ClientGoneError, Receive, Scope, Send, header, until_gone
from gearshift.edge.errors import RefusedError
from gearshift.edge.gate import admit
from gearshift.edge.keys import Client
from gearshift.gateway import routes
from gearshift.gateway.document import parse
from gearshift.gateway.engine import EngineClient
from gearshift.gateway.exchange import Exchange, Services, lease_for
from gearshift.gateway.exposition import CONTENT_TYPE, exposition
from gearshift.gateway.intake import read_body
from gearshift.gateway.meter import Figures
from gearshift.gateway.models import model_card, model_list
from gearshift.gateway.multipart import multipart_payload
from gearshift.gateway.passthrough import PREFIX, locate
from gearshift.gateway.payload import JsonPayload, Payload, RawPayload
from gearshift.gateway.presence import Presence
from gearshift.gateway.recording import recorded
from gearshift.gateway.relay import Relay
from gearshift.gateway.reply import Reply
from gearshift.gateway.stamps import Clock, Stamps
from gearshift.gateway.tally import Tally
from gearshift.gateway.upload import Upload
from gearshift.gateway.websocket import Socket, bridge

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
    """The data path's ASGI app. ``settings`` is asked per request, so a reload takes effect at once.

    The gateway counts its requests in ``tally``; who hands the same tally to control's sink (see `Fanout`) has swaps in
    ``/metrics`` too.
    """
    return Gateway(Services(broker, settings, sink, EngineClient(), clock, tally or Tally()))


@dataclass(frozen=True, slots=True)
class Admitted:
    """A request that has passed the gate: what it is, where its body comes from, where its answer goes, who asks."""

    scope: Scope
    receive: Receive
    reply: Reply
    client: Client

    def gone(self) -> Awaitable[None]:
        """Done once the client is gone. It reads from the client, so the body must be here already."""
        return until_gone(self.receive)


class Gateway:
    """Routes requests of ``http`` and ``websocket`` scopes.

    It serves the ``lifespan`` scope as well; an app that composes it with others calls ``close`` itself instead.
    """

    def __init__(self, services: Services) -> None:
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        else:
            await self._lifespan(receive, send)

    async def close(self) -> None:
        """Close the connections to engines. Idempotent."""
        await self._services.engines.close()

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while (message := await receive())["type"] != "lifespan.shutdown":
            await send({"type": f"{message['type']}.complete"})
        await self.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        settings = self._services.settings()
        reply = Reply(send, origin.cors_headers(scope["headers"], settings))
        try:
            await self._serve(scope, receive, reply, settings)
        except ClientGoneError:
            return
        except GearshiftError as error:
            await _farewell(reply.fail(error, routes.dialect_of(scope["path"])))
        except Exception:
            # A defect of ours: the client gets the dialect's 500, the server below logs the traceback.
            await _farewell(reply.fail(_defect(), routes.dialect_of(scope["path"])))
            raise

    async def _serve(self, scope: Scope, receive: Receive, reply: Reply, settings: Settings) -> None:
        path: str = scope["path"]
        if (allowed := origin.preflight(scope, settings)) is not None:
            await reply.answer(204, allowed, b"")
        elif path == "/health":
            origin.check_host(scope, settings)
            await reply.json(200, {"status": "ok"})
        elif path.startswith(PREFIX):
            await self._upstream(Admitted(scope, receive, reply, admit(scope, settings, side_effects=True)))
        else:
            await self._dispatch(Admitted(scope, receive, reply, admit(scope, settings)))

    async def _dispatch(self, request: Admitted) -> None:
        path: str = request.scope["path"]
        operation = routes.find(path)
        if operation is not None:
            _check_method(request.scope, routes.methods(path))
            await self._operate(request, operation)
        elif path in {"/v1/models", "/models", "/metrics"} or path.startswith("/v1/models/"):
            _check_method(request.scope, ("GET", "HEAD"))
            await self._tell(path, request.reply)
        else:
            hint = f"an engine's own paths are below {PREFIX}MODEL:VARIANT/"
            raise RefusedError(404, "not_found", f"nothing is served at {path}", hint=hint)

    async def _tell(self, path: str, reply: Reply) -> None:
        """What takes no lease: the models, one of them, the metrics."""
        if path == "/metrics":
            text = await exposition(self._services.tally, self._services.broker, self._services.engines)
            await reply.answer(200, [(b"content-type", CONTENT_TYPE)], text)
        elif path.startswith("/v1/models/"):
            await reply.json(200, model_card(path.removeprefix("/v1/models/"), self._services.broker))
        else:
            await reply.json(200, model_list(self._services.settings(), self._services.broker.statuses()))

    async def _operate(self, request: Admitted, operation: routes.Operation) -> None:
        exchange = self._exchange(request, operation, target_of(request.scope))
        with self._recorded(exchange):
            kind = (header(request.scope["headers"], b"content-type") or b"").decode("latin-1")
            if kind.lower().startswith("multipart/form-data"):
                await self._multipart(request, exchange, kind)
            else:
                await self._json(request, exchange)

    async def _multipart(self, request: Admitted, exchange: Exchange, kind: str) -> None:
        with Upload(request.receive, request.scope["headers"], self._body_limit) as upload:
            payload = await multipart_payload(upload, kind)
            route = self._services.broker.resolve(payload.model)  # an unknown model needs no whole body
            await upload.fill()
            await exchange.run(request.gone, payload, route)

    async def _json(self, request: Admitted, exchange: Exchange) -> None:
        body = await read_body(request.receive, request.scope["headers"], self._body_limit)
        bodiless = request.scope["method"] == "GET"
        payload: Payload = _without_body(request.scope) if bodiless else JsonPayload(parse(body))
        await exchange.run(request.gone, payload, self._services.broker.resolve(payload.model))

    async def _upstream(self, request: Admitted) -> None:
        exchange = self._exchange(request, routes.RAW)
        with self._recorded(exchange):
            route, exchange.target = locate(request.scope, self._services.broker)
            with Upload(request.receive, request.scope["headers"], self._body_limit) as upload:
                await upload.fill()
                payload = RawPayload(route.variant.id, upload.read() if upload.length else None, upload.length)
                await exchange.run(request.gone, payload, route)

    @property
    def _body_limit(self) -> int:
        return self._services.settings().body_limit_bytes

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # websocket.connect
        socket = Socket(scope, receive, send)
        try:
            client = admit(scope, self._services.settings(), side_effects=True)
            await self._bridge(socket, client)
        except ClientGoneError:
            return
        except GearshiftError as error:
            await _farewell(socket.fail(error))
        except Exception:
            await _farewell(socket.fail(_defect()))
            raise

    async def _bridge(self, socket: Socket, client: Client) -> None:
        scope, services = socket.scope, self._services
        if not scope["path"].startswith(PREFIX):
            hint = f"an engine's own websockets are below {PREFIX}MODEL:VARIANT/"
            raise RefusedError(404, "not_found", f"no websocket is served at {scope['path']}", hint=hint)
        stamps, figures = Stamps(scope["path"], services.clock(), client=client.name), Figures()
        with recorded(services, stamps, figures, lambda: socket.status):
            route, target = locate(scope, services.broker)
            stamps.variant = route.variant.id
            async with Presence(partial(until_gone, socket.receive), Reply(socket.send, [])):
                lease = await lease_for(services, route, scope["headers"])
            stamps.grant(lease, services.clock())
            code = await bridge(socket, services.engines, lease, target, figures)
            await socket.close(code)  # with the lease given back: a client may take its time to answer

    def _recorded(self, exchange: Exchange) -> AbstractContextManager[None]:
        relay = exchange.relay
        return recorded(self._services, exchange.stamps, relay.figures, lambda: relay.reply.status)

    def _exchange(self, request: Admitted, operation: routes.Operation, target: str = "") -> Exchange:
        services, scope = self._services, request.scope
        stamps = Stamps(scope["path"], services.clock(), client=request.client.name)
        relay = Relay(services.engines, scope, operation, request.reply, Figures(), services.clock)
        return Exchange(services, relay, stamps, target)


def _defect() -> GearshiftError:
    return GearshiftError("internal error, see the server's log")


async def _farewell(saying: Awaitable[None]) -> None:
    with contextlib.suppress(TimeoutError, ClientGoneError):
        async with asyncio.timeout(_FAREWELL_S):
            await saying


def target_of(scope: Scope) -> str:
    """Path and query exactly as the client sent them."""
    target: str = scope["raw_path"].decode("latin-1")
    query: bytes = scope["query_string"]
    return f"{target}?{query.decode('latin-1')}" if query else target


def _without_body(scope: Scope) -> RawPayload:
    query = parse_qs(scope["query_string"].decode("latin-1"))
    return RawPayload(query.get("model", [None])[0])


def _check_method(scope: Scope, allowed: tuple[str, ...]) -> None:
    if scope["method"] not in allowed:
        message = f"{scope['path']} answers {' and '.join(allowed)}, not {scope['method']}"
        raise RefusedError(405, "method_not_allowed", message)
