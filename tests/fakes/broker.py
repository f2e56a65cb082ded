"""A broker in the hands of a test: it grants when told, revokes when told, and remembers what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from gearshift.domain.errors import UnknownIdError, UnknownModelError
from gearshift.domain.launch import Endpoint, MetricNames
from gearshift.domain.leasing import Lease, Route, State, Upstream, VariantStatus
from gearshift.domain.variant import Variant


def upstream_at(port: int, *, served_name: str = "served", headers: dict[str, str] | None = None) -> Upstream:
    """An engine on a loopback port with llama.cpp's metric names."""
    endpoint = Endpoint(f"http://127.0.0.1:{port}", "127.0.0.1", port)
    names = MetricNames(
        drafts="llamacpp:spec_decode_num_drafts_total",
        accepted_per_position="llamacpp:spec_decode_num_accepted_tokens_per_pos_total",
        generation_tokens="llamacpp:tokens_predicted_total",
        running="llamacpp:requests_processing",
    )
    return Upstream(endpoint, served_name, headers or {}, names, "/metrics")


@dataclass
class FakeLease:
    """A lease that counts its releases."""

    variant: Variant
    upstream: Upstream
    queued_s: float = 0.0
    load_s: float = 0.0
    releases: int = 0
    taken_back: asyncio.Future[str] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def revoked(self) -> asyncio.Future[str]:
        return self.taken_back

    def release(self) -> None:
        self.releases += 1


@dataclass
class FakeTicket:
    """A place whose lease or refusal is set from outside."""

    outcome: asyncio.Future[FakeLease]
    progress: str = "loading weights 40 %"
    left: bool = False

    async def wait(self, timeout_s: float | None = None) -> Lease | None:
        await asyncio.wait({self.outcome}, timeout=timeout_s)
        return self.outcome.result() if self.outcome.done() else None

    def leave(self) -> None:
        self.left = True
        if self.outcome.done() and self.outcome.exception() is None:
            self.outcome.result().release()


@dataclass
class FakeBroker:
    """Grants at once while ``open``; otherwise tickets wait in ``tickets`` for ``grant`` or ``refuse``."""

    variant: Variant
    upstream: Upstream
    open: bool = True
    state: State = "ready"
    side_alias: str | None = None
    refusal: Exception | None = None  # raised by request()
    asked: list[tuple[str, bool]] = field(default_factory=list)  # variant, side
    tickets: list[FakeTicket] = field(default_factory=list)
    leases: list[FakeLease] = field(default_factory=list)
    shared: str | None = None  # the id of an operator's lease

    def resolve(self, name: str | None) -> Route:
        if name in {None, self.variant.model, self.variant.id}:
            return Route(self.variant)
        if name == self.side_alias:
            return Route(self.variant, side=True)
        msg = f"no model is named {name!r}"
        raise UnknownModelError(msg, hint=f"known: {self.variant.id}")

    def request(self, variant: str, *, side: bool = False) -> FakeTicket:
        self.asked.append((variant, side))
        if self.refusal is not None:
            raise self.refusal
        ticket = FakeTicket(asyncio.get_running_loop().create_future())
        self.tickets.append(ticket)
        if self.open:
            self.grant(ticket)
        return ticket

    def share(self, lease_id: str, variant: str) -> FakeLease:
        if (lease_id, variant) != (self.shared, self.variant.id):
            msg = f"there is no lease {lease_id!r}"
            raise UnknownIdError(msg)
        self.leases.append(FakeLease(self.variant, self.upstream))
        return self.leases[-1]

    def grant(self, ticket: FakeTicket, *, load_s: float = 0.0) -> FakeLease:
        lease = FakeLease(self.variant, self.upstream, queued_s=0.25, load_s=load_s)
        self.leases.append(lease)
        ticket.outcome.set_result(lease)
        return lease

    def refuse(self, ticket: FakeTicket, error: Exception) -> None:
        ticket.outcome.set_exception(error)

    def peek(self, variant: str) -> Upstream | None:
        return self.upstream if variant == self.variant.id and self.state == "ready" else None

    def statuses(self) -> Sequence[VariantStatus]:
        in_flight = sum(not lease.releases for lease in self.leases)
        return [
            VariantStatus(
                variant=self.variant.id, engine=self.variant.engine.kind, engine_version=None, state=self.state,
                pids=(), port=self.upstream.endpoint.port, gpus=(), planned_bytes=None, measured_bytes=None,
                context=self.variant.context, in_flight=in_flight, queued=0, stage=None, since_s=1.0,
                unload_in_s=None, failure=None,
            )
        ]  # fmt: skip
