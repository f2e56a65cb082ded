"""Where a cell's prompts come from: fitted text, random token ids, or a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import SystemRandom
from typing import Literal, Protocol

from gearshift.bench.workload.corpus import Kind, corpus
from gearshift.bench.workload.files import FilePrompt, WorkloadFileError, read_prompts
from gearshift.bench.workload.needle import Needle
from gearshift.bench.workload.prompts import Prompt, PromptMaker
from gearshift.bench.workload.tokenizer import ServerTokenizer
from gearshift.domain.errors import GearshiftError

_SPREAD = 20_000  # characters of corpus whose ids are drawn from: some thousand different ones


class PromptSource(Protocol):
    """Makes prompts."""

    async def make(
        self, tokens: int, *, window: int = 0, needle: Needle | None = None, nonce: bool = True
    ) -> Prompt: ...


def open_prompt_source(
    tokenizer: ServerTokenizer, kind: Kind | Literal["ids", "file"], file: str | None
) -> PromptSource:
    """The source of a plan's prompts.

    Raises:
        WorkloadFileError: ``kind`` is "file", and there is none or it cannot be read.
    """
    if kind == "ids":
        return RandomIds(tokenizer)
    if kind != "file":
        return PromptMaker(tokenizer, kind)
    if file is None:
        msg = "prompts from a file need its path"
        raise WorkloadFileError(msg)
    return FilePrompts(Path(file), PromptMaker(tokenizer))


class RandomIds:
    """Random token ids, as other tools send them; for comparison with them only.

    Drafts are hardly ever accepted in such text, and a chat template cannot be applied to it. The ids are ones that the
    server's own tokenizer uses, so that none is special.
    """

    def __init__(self, tokenizer: ServerTokenizer) -> None:
        self._tokenizer = tokenizer
        self._ids: Sequence[int] | None = None

    async def make(self, tokens: int, *, window: int = 0, needle: Needle | None = None, nonce: bool = True) -> Prompt:
        """``tokens`` ids, all new.

        Raises:
            GearshiftError: the server has no tokenizer to ask, or something that ids cannot do is wanted.
        """
        del window
        if needle is not None or not nonce:
            msg = "random token ids can neither hide a needle nor be cached on purpose"
            raise GearshiftError(msg, hint="use a kind of text")
        if self._ids is None:
            self._ids = sorted(set(await self._tokenizer.encode(corpus("prose")[:_SPREAD]) or ()))
        if not self._ids:
            msg = "the server has no /tokenize, so no valid token ids are known"
            raise GearshiftError(msg, hint="use a kind of text")
        random = SystemRandom()
        return Prompt("", tokens, exact=True, ids=tuple(random.choice(self._ids) for _ in range(tokens)))


class FilePrompts:
    """Prompts of a file in turn, each behind a nonce; their lengths are what they are."""

    def __init__(self, path: Path, maker: PromptMaker) -> None:
        self._prompts: Sequence[FilePrompt] = read_prompts(path)
        self._maker = maker
        self._next = 0

    async def make(self, tokens: int, *, window: int = 0, needle: Needle | None = None, nonce: bool = True) -> Prompt:
        """The next prompt; ``tokens`` is what the plan believes and is not enforced."""
        del window, needle
        prompt = self._prompts[self._next % len(self._prompts)]
        self._next += 1
        head = f"[{await self._maker.nonce()}]\n" if nonce else ""
        return Prompt(head + prompt.text, tokens, exact=False)
