"""One request as the client saw it: raw stamps, counts from several sources, and the figures derived from them."""

from __future__ import annotations

from dataclasses import dataclass

_LONG, _GATHERED = 16, 8  # tokens or events of an answer that must have been a stream; events a piece


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as the server states them; None = it does not say."""

    prompt: int
    completion: int
    cached: int | None = None
    reasoning: int | None = None


@dataclass(frozen=True, slots=True)
class EngineTimings:
    """llama-server's own ``timings`` of one request: counts, and milliseconds as seconds."""

    prompt_tokens: int  # evaluated, without the cached ones
    prompt_s: float
    tokens: int
    decode_s: float  # from the first generated token to the last: tokens - 1 steps
    cached_tokens: int | None = None
    draft_tokens: int | None = None
    accepted_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One request, ready to send: the body is encoded before any clock starts."""

    path: str  # "/v1/chat/completions"
    body: bytes
    prompt_tokens: int | None = None  # by the server's tokenizer, template not counted; None = it was not asked
    label: str = ""


@dataclass(frozen=True, slots=True)
class Sample:
    """One request's stamps: seconds since it was sent, on a monotonic clock. None = did not happen.

    A chunk is one stream event that carries at least one visible token; it may carry several.
    """

    started_s: float  # since the trial began
    ended_s: float
    status: int | None = None
    error: str | None = None  # None = the answer is whole
    planned_s: float | None = None  # since the trial began: when an open loop meant to send it
    headers_s: float | None = None
    first_answer_s: float | None = None  # first token that is neither reasoning nor a tool call
    chunk_s: tuple[float, ...] = ()
    reasoning_chunks: int = 0
    tool_chunks: int = 0
    token_ids: int | None = None  # where the server sends ids with its chunks
    usage: Usage | None = None
    timings: EngineTimings | None = None
    finish: str | None = None
    text: str = ""  # the answer without reasoning
    thought: str = ""  # the reasoning

    @property
    def ok(self) -> bool:
        """Whole, and with at least one token."""
        return self.error is None and bool(self.chunk_s)

    @property
    def prompt(self) -> int | None:
        """Prompt tokens as the server counts them, cached ones included."""
        if self.usage is not None:
            return self.usage.prompt
        if self.timings is None or self.timings.cached_tokens is None:
            return None
        return self.timings.prompt_tokens + self.timings.cached_tokens

    @property
    def cached(self) -> int | None:
        """Prompt tokens that came from cache, by usage, else by llama-server's timings."""
        if self.usage is not None and self.usage.cached is not None:
            return self.usage.cached
        return self.timings.cached_tokens if self.timings is not None else None

    @property
    def held_back(self) -> bool:
        """Whether it came in fewer pieces than it was made in: not streamed, or gathered by something in between.

        An engine sends the first token by itself, so a long answer in one piece was never a stream; of many events
        eight to a piece and more were gathered, since a piece is whatever has come when the client looks.
        """
        events, pieces = len(self.chunk_s), len(set(self.chunk_s))
        if pieces == 1:
            return max(events, self.tokens or 0) >= _LONG
        return events >= _LONG and events >= _GATHERED * pieces

    @property
    def ttft_s(self) -> float | None:
        """Time to the first token of any kind: answer, reasoning or tool call."""
        return self.chunk_s[0] if self.chunk_s else None

    @property
    def tokens(self) -> int | None:
        """Generated tokens as the server counts them; where it does not, the ids it sent. Chunks are never tokens."""
        if self.usage is not None:
            return self.usage.completion
        return self.token_ids

    @property
    def tpot_s(self) -> float | None:
        """Time per output token: (last - first) / (tokens - 1); None below two tokens or two stamps."""
        tokens = self.tokens
        if tokens is None or tokens < 2 or len(self.chunk_s) < 2:  # noqa: PLR2004 - an interval needs two ends
            return None
        return (self.chunk_s[-1] - self.chunk_s[0]) / (tokens - 1)

    @property
    def e2e_s(self) -> float | None:
        """From sending to the last token."""
        return self.chunk_s[-1] if self.chunk_s else None

    @property
    def chunk_gaps_s(self) -> tuple[float, ...]:
        """Times between chunks. Not a time per token: a chunk may carry several."""
        return tuple(later - earlier for earlier, later in zip(self.chunk_s, self.chunk_s[1:], strict=False))
