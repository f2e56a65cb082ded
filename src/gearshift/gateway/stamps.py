"""The stamps of one request, kept while it runs and turned into its record at the end."""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from gearshift.domain.leasing import Lease
from gearshift.domain.records import Outcome, RequestRecord
from gearshift.gateway.meter import Figures

Clock = Callable[[], float]

_PREFIX = secrets.token_hex(4)  # ids of two server lives never meet in the store
_COUNT = itertools.count(1)


@dataclass(slots=True)
class Stamps:
    """Monotonic moments of one request; ``arrived`` is the wall clock's reading of ``began``."""

    path: str
    began: float
    arrived: float = field(default_factory=time.time)
    id: str = field(default_factory=lambda: f"{_PREFIX}-{next(_COUNT):x}")
    client: str | None = None
    variant: str = ""  # until it is known
    queued_s: float = 0.0
    load_s: float = 0.0
    dispatched: float | None = None
    outcome: Outcome = "error"  # until something better is known

    def grant(self, lease: Lease, now: float) -> None:
        """A lease was given and the engine is asked from here on."""
        self.variant = lease.variant.id
        self.queued_s, self.load_s = lease.queued_s, lease.load_s
        self.dispatched = now

    def record(self, status: int, figures: Figures, ended: float) -> RequestRecord:
        """What is remembered of the request."""

        def since(moment: float | None) -> float | None:
            return None if moment is None else moment - self.began

        return RequestRecord(
            id=self.id,
            arrived=self.arrived,
            variant=self.variant,
            path=self.path,
            status=status,
            queued_s=self.queued_s,
            load_s=self.load_s,
            dispatched_s=since(self.dispatched),
            first_byte_s=since(figures.first_byte),
            first_token_s=since(figures.first_token),
            last_token_s=since(figures.last_token),
            ended_s=ended - self.began,
            tokens_in=figures.tokens_in,
            tokens_out=figures.tokens_out,
            cached_tokens=figures.cached,
            draft_tokens=figures.drafted,
            accepted_tokens=figures.accepted,
            events=figures.events,
            outcome=self.outcome,
            client=self.client,
        )
