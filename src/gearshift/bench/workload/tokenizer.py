"""The server's own tokenizer, over HTTP, in either engine's form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Poster(Protocol):
    """Posts JSON and decodes the answer; None when the server has no such path."""

    async def post_json(self, path: str, body: Mapping[str, object]) -> Any | None: ...


class ServerTokenizer:
    """``/tokenize`` and ``/detokenize``.

    vLLM reads ``prompt`` and ``model``, llama-server ``content``; each passes over the other's keys, so both are sent.
    """

    def __init__(self, server: Poster, model: str) -> None:
        self._server = server
        self._model = model

    async def encode(self, text: str) -> list[int] | None:
        """Ids of ``text`` without special tokens; None when the server has no tokenizer to ask."""
        body = {
            "model": self._model,
            "prompt": text,
            "content": text,
            "add_special_tokens": False,
            "add_special": False,
        }
        answer = await self._server.post_json("/tokenize", body)
        tokens = answer.get("tokens") if isinstance(answer, dict) else None
        return [int(token) for token in tokens] if isinstance(tokens, list) else None

    async def decode(self, ids: Sequence[int]) -> str | None:
        """The text of ``ids``; None when the server cannot say."""
        answer = await self._server.post_json("/detokenize", {"model": self._model, "tokens": list(ids)})
        if not isinstance(answer, dict):
            return None
        text = answer.get("prompt", answer.get("content"))
        return text if isinstance(text, str) else None
