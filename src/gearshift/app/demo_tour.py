"""The demo's client: one streamed chat per variant, timed from outside, beside what the server says of each swap."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import aiohttp

from gearshift.app.demo_config import MODEL

PROMPT = "Write the numbers from one to ten as words, then once more, then once more."
TOKENS = 96
LEG_S = 900.0  # a cold vLLM start on two slow cores takes minutes
EVENTS_S = 10.0
QUEUED = "gearshift.queued_s"
_QUEUE_COMMENT = re.compile(rb"x-gearshift-queue-ms=(\d+)")


@dataclass(frozen=True, slots=True)
class Leg:
    """One request of the tour. Seconds; None = the server did not say, or the request failed."""

    variant: str
    answer_s: float  # send to first token: queue, swap and prefill
    decode_tok_s: float | None
    tokens: int | None
    text: str
    error: str | None = None
    queued_s: float | None = None  # of the wait, what was no load: the old variant's drain and stop
    swap: Mapping[str, Any] = field(default_factory=dict)  # the server's swap.done event

    @property
    def ok(self) -> bool:
        return self.error is None

    @property
    def first_token_s(self) -> float | None:
        """What is left of the wait once the swap is taken off."""
        return max(0.0, self.answer_s - self.swap["total_s"]) if self.swap else None


async def tour(url: str, admin_socket: Path, variants: Sequence[str], tell: Callable[[str], None]) -> list[Leg]:
    """Ask each variant once, in order, then fetch what the server noted of the swaps."""
    legs = []
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=LEG_S)) as client:
        for name in variants:
            tell(f"asking {MODEL}:{name} (a swap, then one streamed answer)")
            legs.append(await _ask(client, url, f"{MODEL}:{name}"))
    swaps = await _swaps(admin_socket, len([leg for leg in legs if leg.ok]))
    return _with_swaps(legs, swaps)


async def _ask(client: aiohttp.ClientSession, url: str, variant: str) -> Leg:
    body = {
        "model": variant,
        "messages": [{"role": "user", "content": PROMPT}],
        "max_tokens": TOKENS,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    sent = time.perf_counter()
    first = last = 0.0
    text, tokens = "", None
    async with client.post(f"{url}/v1/chat/completions", json=body) as answer:
        if answer.status != 200:  # noqa: PLR2004 - the one status that carries a stream
            return Leg(variant, time.perf_counter() - sent, None, None, "", error=(await answer.text())[:500])
        queued = _seconds(answer.headers.get("x-gearshift-queue-ms"))
        async for event in _events(answer.content):
            queued = event.get(QUEUED, queued)
            if "error" in event:
                return Leg(variant, time.perf_counter() - sent, None, None, text, error=json.dumps(event["error"]))
            piece = _content(event)
            if piece:
                last = time.perf_counter()
                first = first or last
                text += piece
            tokens = (event.get("usage") or {}).get("completion_tokens", tokens)
    rate = (tokens - 1) / (last - first) if tokens and tokens > 1 and last > first else None
    return Leg(variant, (first or time.perf_counter()) - sent, rate, tokens, text, queued_s=queued)


async def _events(stream: aiohttp.StreamReader) -> AsyncIterator[dict[str, Any]]:
    """The JSON payloads of a server-sent event stream, and what its comments say of the queue."""
    async for raw in stream:
        line = raw.strip()
        if line.startswith(b":") and (told := _QUEUE_COMMENT.search(line)):
            yield {QUEUED: _seconds(told[1].decode())}
        if line.startswith(b"data:") and line[5:].strip() != b"[DONE]":
            yield json.loads(line[5:])


def _seconds(milliseconds: str | None) -> float | None:
    return float(milliseconds) / 1000 if milliseconds else None


def _content(event: Mapping[str, Any]) -> str:
    choices = event.get("choices") or [{}]
    delta = choices[0].get("delta") or {}
    return delta.get("content") or delta.get("reasoning_content") or ""


async def _swaps(admin_socket: Path, expected: int) -> list[Mapping[str, Any]]:
    """The swap.done events in order; fewer than expected when the server does not tell them in time."""
    found: list[Mapping[str, Any]] = []
    connector = aiohttp.UnixConnector(str(admin_socket))
    try:
        async with (
            asyncio.timeout(EVENTS_S),
            aiohttp.ClientSession(connector=connector) as client,
            client.get("http://gearshift/api/v1/events", params={"after": "0"}) as answer,
        ):
            async for event in _events(answer.content):
                if event.get("kind") == "swap.done":
                    found.append(event["data"])
                if len(found) >= expected:
                    break
    except TimeoutError:
        return found
    return found


def _with_swaps(legs: Sequence[Leg], swaps: Sequence[Mapping[str, Any]]) -> list[Leg]:
    """Each leg with the swap it caused: both are in order, and a leg may be missing its own."""
    left = list(swaps)
    return [replace(leg, swap=left.pop(0)) if left and left[0]["variant"] == leg.variant else leg for leg in legs]
