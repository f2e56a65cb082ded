"""Reading a stream as it passes: event count, token stamps, usage, and the one usage chunk that is withheld.

The cost per forwarded chunk decides how many streams a core carries, so the usual chunk (whole events, no usage in
it) costs a byte search and a regular expression that stops within the first members of the event; only chunks that
name ``usage`` (``timings`` with llama.cpp) are parsed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from gearshift.gateway.routes import Shape

# A member that holds a non-empty piece of the answer, by event shape. "content":"" (the role chunk) is no token.
_TOKEN: dict[Shape, re.Pattern[bytes]] = {
    "chat": re.compile(
        rb'"(?:content|reasoning_content|reasoning|refusal|arguments)"\s*:\s*"[^"]|"tool_calls"\s*:\s*\[\s*\{'
    ),
    "completions": re.compile(rb'"text"\s*:\s*"[^"]'),
    "responses": re.compile(rb'"delta"\s*:\s*"[^"]'),
    "messages": re.compile(rb'"(?:text|thinking|partial_json)"\s*:\s*"[^"]'),
    "native": re.compile(rb'"content"\s*:\s*"[^"]'),
    "plain": re.compile(rb"(?!)"),
}
_TIMED: frozenset[Shape] = frozenset({"chat", "completions", "native"})
_LINES = 2
_BOUNDARIES = (b"\n\n", b"\r\n\r\n")
_DATA = re.compile(rb"^data: ?(.*?)\r?$", re.MULTILINE)
# An event that goes on for so long is no usage chunk: it is let through unread rather than held in memory.
_LONGEST_EVENT = 1024**2


class _Details(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    """Usage of any dialect; Anthropic's and Responses' names beside OpenAI's."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    input_tokens_details: _Details | None = None


class _Timings(msgspec.Struct):
    """llama.cpp's own figures (server-common.cpp:84): prompt_n leaves out the cached tokens, cache_n counts them."""

    cache_n: int | None = None
    prompt_n: int | None = None
    predicted_n: int | None = None
    draft_n: int | None = None
    draft_n_accepted: int | None = None


class _Inner(msgspec.Struct):
    usage: _Usage | None = None


class _Event(msgspec.Struct):
    usage: _Usage | None = None
    timings: _Timings | None = None
    choices: list[msgspec.Raw] | None = None
    message: _Inner | None = None  # Anthropic's message_start
    response: _Inner | None = None  # response.completed


_EVENT = msgspec.json.Decoder(_Event)


@dataclass(slots=True)
class Figures:
    """What was read of one answer. Times are the meter's clock; None = not said by the engine."""

    events: int = 0  # forwarded
    first_byte: float | None = None
    first_token: float | None = None
    last_token: float | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    cached: int | None = None
    drafted: int | None = None
    accepted: int | None = None

    def read(self, document: bytes) -> bool:
        """Take the token counts out of a JSON event or body; True when it is a usage-only chunk."""
        try:
            event = _EVENT.decode(document)
        except msgspec.DecodeError:
            return False
        for part in (event, event.message, event.response):
            if part is not None and part.usage is not None:
                self._take_usage(part.usage)
        if event.timings is not None:
            self._take_timings(event.timings)
        return event.usage is not None and event.choices == []

    def _take_usage(self, usage: _Usage) -> None:
        self.tokens_out = _first(usage.completion_tokens, usage.output_tokens, self.tokens_out)
        details = usage.prompt_tokens_details or usage.input_tokens_details
        cached = _first(details.cached_tokens if details else None, usage.cache_read_input_tokens)
        self.cached = _first(cached, self.cached)
        # Anthropic counts input_tokens without what came from the cache; the others count the whole prompt.
        extra = usage.cache_read_input_tokens or 0
        inputs = usage.input_tokens + extra if usage.input_tokens is not None else None
        self.tokens_in = _first(usage.prompt_tokens, inputs, self.tokens_in)

    def _take_timings(self, timings: _Timings) -> None:
        self.drafted = _first(timings.draft_n, self.drafted)
        self.accepted = _first(timings.draft_n_accepted, self.accepted)
        self.cached = _first(self.cached, timings.cache_n)
        self.tokens_out = _first(timings.predicted_n, self.tokens_out)
        if self.tokens_in is None and timings.prompt_n is not None:
            self.tokens_in = timings.prompt_n + (timings.cache_n or 0)


class StreamMeter:
    """Fed every chunk of an event stream; returns the whole events to forward now.

    An event split over chunks is forwarded once it is complete: no client can use half of one, and an engine that
    dies in the middle leaves nothing that would spoil the error event after it. With ``withhold`` the one usage-only
    event that we asked for is kept back.
    """

    __slots__ = ("_clock", "_figures", "_has_token", "_mark", "_tail", "_withhold")

    def __init__(
        self, shape: Shape, figures: Figures, clock: Callable[[], float], *, withhold: bool, timings: bool = False
    ) -> None:
        """``timings``: the engine is llama.cpp, whose streams tell their counts in ``timings``."""
        self._figures = figures
        self._clock = clock
        self._has_token = _TOKEN[shape].search
        self._mark = b'"timings"' if timings and shape in _TIMED else b'"usage"'
        self._withhold = withhold
        self._tail = b""

    def feed(self, chunk: bytes) -> bytes:
        """Take note of a chunk; the bytes to forward now, possibly none."""
        if self._tail or not chunk.endswith(b"\n\n"):
            chunk = self._complete(chunk)
        figures = self._figures
        # Two line feeds are one event; counting single bytes is a third of the cost of counting the pair.
        figures.events += 1 if chunk.count(b"\n") == _LINES else _count_events(chunk)
        if self._has_token(chunk):
            now = self._clock()
            figures.last_token = now
            if figures.first_token is None:
                figures.first_token = now
        if self._mark in chunk:
            return self._read(chunk)
        return chunk

    def rest(self) -> bytes:
        """What is held of an unfinished event when the engine ended its stream."""
        rest, self._tail = self._tail, b""
        return rest

    def _complete(self, chunk: bytes) -> bytes:
        """The whole events up to now; what follows the last boundary is kept for the next chunk."""
        joined = self._tail + chunk
        end = max(joined.rfind(mark) + len(mark) if mark in joined else 0 for mark in _BOUNDARIES)
        if not end and len(joined) > _LONGEST_EVENT:
            end = len(joined)
        self._tail = joined[end:]
        return joined[:end]

    def _read(self, chunk: bytes) -> bytes:
        mark = b"\r\n\r\n" if b"\r\n\r\n" in chunk else b"\n\n"
        events = chunk.split(mark)
        usage_only = [event for event in events if self._is_usage_only(event)]
        if not self._withhold or not usage_only:
            return chunk
        self._figures.events -= len(usage_only)
        return mark.join(event for event in events if event not in usage_only)

    def _is_usage_only(self, event: bytes) -> bool:
        """Take the event's counts; whether that was all it held."""
        found = _DATA.search(event)
        return found is not None and self._mark in event and self._figures.read(found[1])


def _count_events(chunk: bytes) -> int:
    return chunk.count(b"\n\n") or chunk.count(b"\r\n\r\n")


def _first(*counts: int | None) -> int | None:
    return next((count for count in counts if count is not None), None)
