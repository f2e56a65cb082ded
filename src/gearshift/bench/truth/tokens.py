"""A toy tokenizer: a word or a punctuation mark is a token, ids are given in order of appearance."""

from __future__ import annotations

import re

_TOKEN = re.compile(r"\w+|[^\w\s]")
BLOCK = 16  # tokens; prefixes are cached in whole blocks


class Vocabulary:
    """Ids by word. Joining words by a space and splitting them again gives the same ids."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._words: list[str] = []

    def encode(self, text: str) -> list[int]:
        return [self._id(word) for word in _TOKEN.findall(text)]

    def decode(self, ids: list[int]) -> str:
        """Unknown ids (a client may send random ones) become a word of their own."""
        return " ".join(self._words[token] if token < len(self._words) else f"unk{token}" for token in ids)

    def _id(self, word: str) -> int:
        found = self._ids.setdefault(word, len(self._words))
        if found == len(self._words):
            self._words.append(word)
        return found


class PrefixCache:
    """Remembers prefixes in whole blocks, without limit and without eviction."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def hit(self, ids: list[int]) -> int:
        """Tokens of ``ids`` that are cached; afterwards all its whole blocks are. Never the whole prompt."""
        cached = 0
        running = 0
        for end in range(BLOCK, len(ids), BLOCK):
            running = hash((running, *ids[end - BLOCK : end]))
            if running in self._seen and cached == end - BLOCK:
                cached = end
            self._seen.add(running)
        return cached
