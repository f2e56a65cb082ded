"""An engine's answer on its way to the client, byte for byte."""

from __future__ import annotations

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import aiohttp
import msgspec

from gearshift.domain.errors import InterruptedLeaseError
from gearshift.domain.leasing import Upstream
from gearshift.edge.asgi import Header, Scope
from gearshift.edge.errors import Dialect
from gearshift.gateway.engine import EngineClient, request_headers, response_headers
from gearshift.gateway.meter import Figures, StreamMeter
from gearshift.gateway.payload import Outgoing
from gearshift.gateway.reply import Reply
from gearshift.gateway.routes import Operation
from gearshift.gateway.stamps import Clock

# A longer JSON answer is not searched for its usage: parsing it would hold up everybody's streams.
_LONGEST_ANSWER: Final = 1024**2
_LONGEST_REASON: Final = 300
# In a text the quotes would be escaped.
_NUMBER: Final = re.compile(rb'"sequence_number"\s*:\s*(\d{1,15})')


@dataclass(slots=True)
class Relay:
    """Sends one request to an engine and its answer to the client, filling ``figures`` on the way."""

    engines: EngineClient
    scope: Scope
    operation: Operation
    reply: Reply
    figures: Figures
    clock: Clock

    async def run(self, upstream: Upstream, target: str, outgoing: Outgoing, facts: list[Header]) -> None:
        """Relay the whole answer; ``facts`` are the x-gearshift headers.

        Raises aiohttp.ClientError, OSError or TimeoutError when the engine goes away before the answer is whole; the
        connection to the engine is closed on every way out but the clean end.
        """
        headers = request_headers(self.scope["headers"])
        method: str = self.scope["method"]
        response = await self.engines.send(method, upstream, target, headers, outgoing.body, length=outgoing.length)
        try:
            self.figures.first_byte = self.clock()
            await self._answer(response, outgoing, facts)
        finally:
            response.close()

    async def _answer(self, response: aiohttp.ClientResponse, outgoing: Outgoing, facts: list[Header]) -> None:
        streams = response.content_type == "text/event-stream"
        if not self.reply.begun:
            headers = response_headers(response.raw_headers) + facts
            if streams:
                headers.append((b"x-accel-buffering", b"no"))
                self.reply.streams = True
            await self.reply.start(response.status, headers)
        elif not streams or response.status != HTTPStatus.OK:
            await self._late_refusal(response)
            return
        else:
            await self.reply.comment(" ".join(f"{name.decode()}={value.decode()}" for name, value in facts))
        await (self._events(response, outgoing) if streams else self._plain(response))

    async def _events(self, response: aiohttp.ClientResponse, outgoing: Outgoing) -> None:
        meter = StreamMeter(
            self.operation.shape, self.figures, self.clock, withhold=outgoing.withhold, timings=outgoing.timings
        )
        feed, read, send = meter.feed, response.content.readany, self.reply.send
        sent = b""
        try:
            while chunk := await read():
                if whole := feed(chunk):
                    sent = whole
                    await send({"type": "http.response.body", "body": whole, "more_body": True})
        finally:
            self.reply.next_number = following(sent, self.figures.events)
        await self.reply.finish(meter.rest())

    async def _plain(self, response: aiohttp.ClientResponse) -> None:
        content, kept, size = response.content, list[bytes](), 0
        while chunk := await content.readany():
            size += len(chunk)
            if size <= _LONGEST_ANSWER:
                kept.append(chunk)
            if content.at_eof():
                break
            await self.reply.part(chunk)
        await self.reply.finish(chunk)
        if size <= _LONGEST_ANSWER and response.content_type == "application/json":
            self.figures.read(b"".join(kept))

    async def _late_refusal(self, response: aiohttp.ClientResponse) -> None:
        """The engine said no (or not in events) after our keep-alive had begun the stream: its words as an event."""
        body = await _beginning(response.content, _LONGEST_ANSWER)
        self.reply.status = response.status
        await self.reply.part(refusal_event(response.status, body, self.operation.dialect))


def following(sent: bytes, events: int) -> int:
    """The number that follows the last one in ``sent``; of a stream without numbers, how many events it had so far."""
    numbers = _NUMBER.findall(sent)
    return int(numbers[-1]) + 1 if numbers else events


async def _beginning(content: aiohttp.StreamReader, most: int) -> bytes:
    """Up to ``most`` bytes: `read` alone gives what happens to be there."""
    kept = bytearray()
    while len(kept) < most and (piece := await content.read(most - len(kept))):
        kept += piece
    return bytes(kept)


def refusal_event(status: int, body: bytes, dialect: Dialect) -> bytes:
    """An engine's error answer as an error event: its own JSON object where it sent one, else its text."""
    try:
        document = msgspec.json.decode(body, type=dict[str, object])
    except msgspec.DecodeError:
        document = {}
    if "error" not in document:
        text = body.decode("utf-8", "replace").strip() or f"the engine answered with status {status}"
        document = {"error": {"message": text, "type": "server_error", "code": status, "param": None}}
    numbered = {"sequence_number": 0} if dialect == "responses" else {}  # comments have no numbers, so it is the first
    data = msgspec.json.encode({"type": "error", **numbered, **document, "src": "engine"})
    return b"data: %b\n\n" % data if dialect == "openai" else b"event: error\ndata: %b\n\n" % data


def engine_gone(variant: str, error: BaseException, reason: str | None, *, begun: bool) -> InterruptedLeaseError:
    """The failure that the client sees when the connection to an engine broke."""
    when = "before the answer was whole" if begun else "before it answered"
    why = reason or _in_brief(error)
    return InterruptedLeaseError(f"the engine of {variant} went away {when}: {why}")


def _in_brief(error: BaseException) -> str:
    """An HTTP parser quotes what it could not read, in whole and on lines of its own: that is not for a client."""
    text = error.message if isinstance(error, aiohttp.ClientResponseError) else str(error)
    first, *_ = text.splitlines() or [""]
    return first.rstrip(": ")[:_LONGEST_REASON] or type(error).__name__
