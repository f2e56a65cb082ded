"""One request on its way: a place in the queue, a lease, the relay."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Final

import aiohttp

from gearshift.domain.errors import NotResidentError
from gearshift.domain.leasing import Broker, Lease, Route, Ticket
from gearshift.domain.records import Sink
from gearshift.domain.settings import Settings, SideRule
from gearshift.edge.asgi import Header, Headers, header
from gearshift.gateway.engine import LEASE_HEADER, EngineClient
from gearshift.gateway.heartbeat import Heartbeat
from gearshift.gateway.payload import Payload
from gearshift.gateway.presence import Hold, Presence, Watch
from gearshift.gateway.relay import Relay, engine_gone
from gearshift.gateway.reply import Reply
from gearshift.gateway.stamps import Clock, Stamps
from gearshift.gateway.tally import Tally

# A stream's client gets its first keep-alive comment after so much waiting, later ones every `keepalive_s`. Until
# then the answer can still carry a status of its own: a load that fails at once is a proper 503.
FIRST_COMMENT_S: Final = 1.0
# How long a broken connection waits for control to say why the engine went.
REASON_S: Final = 0.25
# What a broken connection to an engine raises.
GONE: Final = (aiohttp.ClientError, TimeoutError, OSError)


@dataclass(frozen=True, slots=True)
class Services:
    """What every request is served with; one for the whole gateway."""

    broker: Broker
    settings: Callable[[], Settings]
    sink: Sink
    engines: EngineClient
    clock: Clock
    tally: Tally


@dataclass(slots=True)
class Exchange:
    """One request whose body is known. ``run`` it once; what goes wrong is raised."""

    services: Services
    relay: Relay
    stamps: Stamps
    target: str  # path and query as the client sent them

    async def run(self, watch: Watch, payload: Payload, route: Route) -> None:
        """Serve it. Raises GearshiftError or ClientGoneError."""
        self.stamps.variant = route.variant.id
        async with Presence(watch, self.relay.reply):
            await self._serve(payload, route)

    async def _serve(self, payload: Payload, route: Route) -> None:
        if not self.relay.operation.waits:
            await self._peek(payload, route)
            return
        # Only where the shape of the stream is known: what answers speech with "stream" sends no events.
        comments = self.relay.reply if payload.streams and self.relay.operation.shape != "plain" else None
        lease = await lease_for(self.services, route, self.relay.scope["headers"], comments)
        hold = Hold(lease)
        with hold:
            self.stamps.grant(lease, self.services.clock())
            try:
                outgoing = payload.outgoing(self.relay.operation, lease.variant, lease.upstream.served_name)
                with self._heartbeat(lease) if comments else nullcontext():
                    await self.relay.run(lease.upstream, self.target, outgoing, _facts(lease))
            except GONE as error:
                reason = await hold.reason(REASON_S)
                raise engine_gone(lease.variant.id, error, reason, begun=self.relay.reply.begun) from error

    async def _peek(self, payload: Payload, route: Route) -> None:
        variant = route.variant
        upstream = self.services.broker.peek(variant.id)
        if upstream is None:
            message = f"{variant.id} is not resident, and this request never loads it"
            raise NotResidentError(message, hint="load it, or send it a completion first")
        self.stamps.dispatched = self.services.clock()
        outgoing = payload.outgoing(self.relay.operation, variant, upstream.served_name)
        try:
            await self.relay.run(upstream, self.target, outgoing, [(b"x-gearshift-variant", variant.id.encode())])
        except GONE as error:
            raise engine_gone(variant.id, error, None, begun=self.relay.reply.begun) from error

    def _heartbeat(self, lease: Lease) -> Heartbeat:
        text = f"waiting for {lease.variant.id}"
        return Heartbeat(self.relay.reply, self.relay.figures, self.services.settings().keepalive_s, text)


async def lease_for(services: Services, route: Route, headers: Headers, comments: Reply | None = None) -> Lease:
    """Queue until the variant is the request's to use; ``comments`` gets keep-alive lines meanwhile.

    A request that names an operator's lease is part of that and does not queue.

    Raises UnknownIdError, QueueFullError, NotResidentError, DrainingError or LoadFailedError. Cancelling it leaves the
    queue.
    """
    if (lease_id := header(headers, LEASE_HEADER)) is not None:
        return services.broker.share(lease_id.decode("latin-1"), route.variant.id)
    settings = services.settings()
    ticket = services.broker.request(route.variant.id, side=route.side or is_side(headers, settings.side))
    try:
        return await (_wait_commenting(ticket, comments, settings.keepalive_s) if comments else _wait(ticket))
    except BaseException:
        ticket.leave()
        raise


def is_side(headers: Headers, rule: SideRule) -> bool:
    """Whether a header marks the request as a side request (titles, tags)."""
    if not rule.headers:
        return False
    found = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
    return any(name in found and wanted in {"*", found[name]} for name, wanted in rule.headers.items())


async def _wait(ticket: Ticket) -> Lease:
    while True:  # without a timeout the ticket answers once
        lease = await ticket.wait()
        if lease is not None:
            return lease


async def _wait_commenting(ticket: Ticket, reply: Reply, keepalive_s: float) -> Lease:
    lease = await ticket.wait(min(FIRST_COMMENT_S, keepalive_s))
    while lease is None:
        await reply.comment(ticket.progress)
        lease = await ticket.wait(keepalive_s)
    return lease


def _facts(lease: Lease) -> list[Header]:
    return [
        (b"x-gearshift-variant", lease.variant.id.encode()),
        (b"x-gearshift-queue-ms", b"%d" % round(lease.queued_s * 1000)),
        (b"x-gearshift-load-ms", b"%d" % round(lease.load_s * 1000)),
    ]
