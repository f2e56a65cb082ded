"""What the gateway and control remember of each request and swap. Stamps are seconds; None = not known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

Outcome = Literal["ok", "client_gone", "engine_died", "refused", "error"]


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request's stamps: seconds since ``arrived`` (wall clock) on a monotonic clock."""

    id: str
    arrived: float  # unix time
    variant: str  # "" = refused before it was known
    path: str
    status: int  # as the client got it: 101 of a websocket, 0 when the client went before any
    queued_s: float
    load_s: float
    dispatched_s: float | None  # sent to the engine
    first_byte_s: float | None
    first_token_s: float | None
    last_token_s: float | None
    ended_s: float
    tokens_in: int | None
    tokens_out: int | None
    cached_tokens: int | None
    draft_tokens: int | None
    accepted_tokens: int | None
    events: int  # stream events forwarded
    outcome: Outcome
    client: str | None = None  # the key's name


@dataclass(frozen=True, slots=True)
class SwapRecord:
    """One variant made resident: what was stopped for it and where the time went. Seconds."""

    at: float  # unix time
    variant: str
    stopped: tuple[str, ...]
    drain_s: float
    stop_s: float  # the engines' own exits
    memory_s: float  # until the memory was back
    load_s: float  # spawn to health; 0 where it was woken
    probe_s: float
    overhead_s: float  # the rest: ours
    total_s: float
    cold: bool  # False: woken from sleep
    failure: str | None = None
    slept: tuple[str, ...] = ()  # of ``stopped``: those that fell asleep and were not stopped
    sleep_s: float | None = None  # until the last of them slept; None = none did
    wake_s: float | None = None  # from the wake call to the first token; None = not woken
    freed_bytes: int | None = None  # by falling asleep, on all their devices; None = none did, or not measured


class Sink(Protocol):
    """Takes records off the hot path; must never block or raise."""

    def request(self, record: RequestRecord) -> None: ...

    def swap(self, record: SwapRecord) -> None: ...
