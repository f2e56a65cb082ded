"""What a truth server does with a request, stated exactly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from typing import Literal

Flavour = Literal["vllm", "llama.cpp"]


@dataclass(frozen=True, slots=True)
class Script:
    """The truth. A request's clock starts when its last byte has arrived (or, past ``slots``, when one is free).

    The first chunk leaves after ``ttft_s`` plus the uncached prompt over ``prefill_tok_s``; each further chunk
    ``step_s`` after the one before, stretched by ``slope`` for each other stream that is decoding.
    """

    ttft_s: float = 0.1
    step_s: float = 0.01
    tokens_per_chunk: tuple[int, ...] = (1,)  # repeated; above 1 it is speculation that got accepted
    prefill_tok_s: float | None = None  # None = the prompt costs nothing
    slope: float = 0.0  # share of step_s added for each other stream
    slots: int | None = None  # streams served at once; None = all
    flavour: Flavour = "vllm"
    cache: bool = False  # prefixes of whole blocks are remembered and cost no prefill
    draft: int = 0  # tokens drafted in each step; 0 = speculation off
    role_chunk: bool = True  # a chunk without text leaves before the prefill
    reasoning: int = 0  # the first so many tokens are reasoning
    tool: int = 0  # the last so many tokens are tool-call arguments
    hidden: int = 0  # the first so many tokens are buffered by a parser: in usage, but in no chunk
    token_ids: bool = False  # chunks carry the ids of their tokens
    template_tokens: int = 4  # what a chat template adds to the prompt
    recall: bool = True  # the answer repeats the codes planted in the prompt
    streams: bool = True  # False = every answer comes whole, whatever was asked for
    refuses: tuple[str, ...] = ()  # keys of a request that it does not take
    refusal: int = 422  # the status of such an answer: 400 by OpenAI, 422 by FastAPI
    die_after: int | None = None  # the connection breaks after so many chunks
    model: str = "truth"
    context: int = 131_072

    def chunks(self, tokens: int) -> Iterator[int]:
        """Tokens of each step's chunk for an answer of ``tokens``; the last one is cut."""
        left = tokens
        for size in cycle(self.tokens_per_chunk):
            if left <= 0:
                return
            yield min(size, left)
            left -= size

    def tpot_s(self, tokens: int, *, streams: int = 1) -> float:
        """The exact time per output token, (last - first) / (tokens - 1), with so many streams decoding."""
        steps = sum(1 for _ in self.chunks(tokens))
        return (steps - 1) * self.step_s * (1 + self.slope * (streams - 1)) / (tokens - 1)
