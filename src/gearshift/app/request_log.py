"""One log line a request, for whoever serves with --verbose: a sink that writes at debug level and passes on."""

from __future__ import annotations

import structlog

from gearshift.domain.records import RequestRecord, Sink, SwapRecord

log = structlog.get_logger(__name__)


class RequestLog:
    """Passes every record on. Below debug level the line costs a comparison."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def request(self, record: RequestRecord) -> None:
        """Name the request and what became of it."""
        log.debug(
            "request",
            id=record.id,
            variant=record.variant,
            path=record.path,
            status=record.status,
            outcome=record.outcome,
            client=record.client,
            queued_s=round(record.queued_s, 4),
            load_s=round(record.load_s, 4),
            ended_s=round(record.ended_s, 4),
            tokens_in=record.tokens_in,
            tokens_out=record.tokens_out,
        )
        self._sink.request(record)

    def swap(self, record: SwapRecord) -> None:
        """Swaps have lines of their own already."""
        self._sink.swap(record)
