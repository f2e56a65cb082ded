"""Prompts of exact length, each unlike any other from its first words on.

A cache recognises what it has seen by its beginning, so a nonce at the end would leave the head cached. The nonce is a
row of words that are equally long in the server's tokenizer: every nonce then has the same length, and a text fitted
once serves any number of prompts.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import TypeVar

from gearshift.bench.workload.corpus import Kind, corpus
from gearshift.bench.workload.needle import Needle
from gearshift.bench.workload.tokenizer import ServerTokenizer

_NOUNS = """
time year people way day man thing woman life child world school state family student group country problem hand part
place case week company system program question work number night point home water room mother area money story fact
month lot right study book eye job word business issue side kind head house service friend father power hour game line
end member law car city name team
"""
_WORDS = tuple(_NOUNS.split())
_NONCE_WORDS = 8
_WINDOWS = 8
_CHARACTERS_PER_TOKEN = 4.0  # where the server has no tokenizer to ask; the first answer's usage corrects it
_FIT_TRIES = 6
_LEAST_CHARACTERS = 32_000
_MOST_CHARACTERS_PER_TOKEN = 8  # of real text in any usual vocabulary; less only repeats the text sooner
_Item = TypeVar("_Item")
_INSTRUCTION: dict[Kind, str] = {
    "code": "\n\nExplain what the code above does, then write it again with type annotations.",
    "prose": "\n\nSummarise the text above in detail, then continue it.",
    "json": "\n\nWrite the calls above again as one JSON list, newest first.",
    "reasoning": "\n\nSolve five more problems like these, step by step.",
}


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt's text and how many tokens it was fitted to, chat template not counted."""

    text: str
    tokens: int
    exact: bool  # by the server's own tokenizer
    ids: tuple[int, ...] = ()  # sent instead of the text, where there are any


class PromptMaker:
    """Makes prompts of one kind of text for one server. Texts are fitted once per length and window, then reused."""

    def __init__(self, tokenizer: ServerTokenizer, kind: Kind = "prose") -> None:
        self.kind: Kind = kind
        self._tokenizer = tokenizer
        self._ids: list[int] | None = None
        self._encoded = 0  # characters of the corpus that ``_ids`` cover
        self._words: tuple[str, ...] | None = None
        self._fitted: dict[tuple[int, int, Needle | None], Prompt] = {}
        self._characters_per_token = _CHARACTERS_PER_TOKEN

    async def make(self, tokens: int, *, window: int = 0, needle: Needle | None = None, nonce: bool = True) -> Prompt:
        """A prompt of ``tokens`` tokens from the ``window``-th place of the corpus.

        Without ``nonce`` the same arguments give the same prompt: that is for what is meant to be cached.
        """
        key = (tokens, window, needle)
        if key not in self._fitted:
            self._fitted[key] = await self._fit(tokens, window, needle)
        body = self._fitted[key]
        head = await self.nonce() if nonce else await self._fixed_head()
        return Prompt(head + body.text, body.tokens, body.exact)

    def correct(self, asked: int, found: int) -> None:
        """Without a tokenizer: a prompt meant to have ``asked`` tokens had ``found``; cut later ones accordingly."""
        if asked > 0 and found > 0 and self._ids is None:
            self._characters_per_token *= asked / found
            self._fitted.clear()

    async def _fit(self, tokens: int, window: int, needle: Needle | None) -> Prompt:
        ids = await self._corpus_ids(tokens)
        if ids is None:
            return Prompt(self._text(self._characters(tokens), window, needle), tokens, exact=False)
        if not await self._tokenizer.decode(ids[:1]):
            return await self._fit_by_characters(tokens, window, needle)
        text, count = "", 0
        size = tokens
        for _ in range(_FIT_TRIES):
            text = await self._body(ids, window, max(0, size), needle)
            count = len(await self._tokenizer.encode(await self._fixed_head() + text) or ())
            if count == tokens:
                break
            size += tokens - count
        return Prompt(text, count, exact=True)

    async def _fit_by_characters(self, tokens: int, window: int, needle: Needle | None) -> Prompt:
        """For a server that counts tokens but does not say what text they are (``/detokenize`` is missing)."""
        size, best = self._characters(tokens), Prompt("", 0, exact=True)
        for _ in range(2 * _FIT_TRIES):
            text = self._text(size, window, needle)
            count = len(await self._tokenizer.encode(await self._fixed_head() + text) or ())
            if abs(count - tokens) < abs(best.tokens - tokens):
                best = Prompt(text, count, exact=True)
            if count == tokens:
                break
            per_token = max(1.0, len(text) / max(1, count))
            size = max(0, size + (round((tokens - count) * per_token) or (1 if count < tokens else -1)))
        return best

    async def _body(self, ids: Sequence[int], window: int, size: int, needle: Needle | None) -> str:
        """``size`` tokens of the corpus, with the needle at its place and the instruction at the end."""
        cut = _cut(ids, window, size)
        if needle is None:
            return ".\n\n" + (await self._tokenizer.decode(cut) or "") + _INSTRUCTION[self.kind]
        place = int(len(cut) * needle.position)
        before, after = await self._tokenizer.decode(cut[:place]), await self._tokenizer.decode(cut[place:])
        return f".\n\n{before}\n{needle.sentence}\n{after}\n\n{needle.question}"

    def _characters(self, tokens: int) -> int:
        """How much of the corpus so many tokens are, beside the instruction."""
        return max(0, int(tokens * self._characters_per_token) - len(_INSTRUCTION[self.kind]))

    def _text(self, size: int, window: int, needle: Needle | None) -> str:
        """``size`` characters of the corpus, with the needle at its place and the instruction at the end."""
        cut = "".join(_cut(corpus(self.kind), window, size))
        if needle is None:
            return ".\n\n" + cut + _INSTRUCTION[self.kind]
        place = int(len(cut) * needle.position)
        return f".\n\n{cut[:place]}\n{needle.sentence}\n{cut[place:]}\n\n{needle.question}"

    async def _corpus_ids(self, tokens: int) -> list[int] | None:
        """At least ``tokens`` ids of the corpus, or all it has: no more text is sent to the server than is needed."""
        text = corpus(self.kind)
        size = min(len(text), max(_LEAST_CHARACTERS, tokens * _MOST_CHARACTERS_PER_TOKEN))
        if size > self._encoded:
            self._ids = await self._tokenizer.encode(text[:size])
            self._encoded = size
        return self._ids

    async def nonce(self) -> str:
        """Random words that are equally long in tokens, so that every nonce is as long as the next."""
        if self._words is None:
            self._words = await self._equal_words()
        return " ".join(secrets.choice(self._words) for _ in range(_NONCE_WORDS))

    async def _fixed_head(self) -> str:
        """A nonce that is always the same."""
        if self._words is None:
            self._words = await self._equal_words()
        return " ".join(islice(cycle(self._words), _NONCE_WORDS))

    async def _equal_words(self) -> tuple[str, ...]:
        """Words of one length in tokens: of one token each in any usual vocabulary, else the most common length."""
        row = await self._tokenizer.encode(" ".join(_WORDS))
        if row is None or len(row) == len(_WORDS):
            return _WORDS
        by_length: dict[int, list[str]] = {}
        for word in _WORDS:
            length = len(await self._tokenizer.encode(f"{word} {word}") or ())
            by_length.setdefault(length, []).append(word)
        most: list[str] = max(by_length.values(), key=len)
        return tuple(most)


def _cut(source: Sequence[_Item], window: int, size: int) -> list[_Item]:
    """``size`` items from the ``window``-th of eight places; a source that is too short starts over."""
    start = (window * len(source) // _WINDOWS) % len(source)
    turns = -(-(start + size) // len(source))
    return list(source if turns == 1 else [*source] * turns)[start : start + size]
