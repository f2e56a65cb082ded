"""Which path is which operation: its error dialect, how it is metered, whether it may cause a load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gearshift.edge.errors import Dialect

Shape = Literal["chat", "completions", "responses", "messages", "native", "plain"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing an engine serves.

    ``shape`` names the stream's events; ``generates`` tells whether sampling defaults mean anything; ``waits`` is
    False for what must never cause a load: it is answered by a resident engine or refused.
    """

    shape: Shape = "plain"
    dialect: Dialect = "openai"
    generates: bool = False
    waits: bool = True


_CHAT = Operation("chat", generates=True)
_COMPLETIONS = Operation("completions", generates=True)
_RESPONSES = Operation("responses", "responses", generates=True)
_MESSAGES = Operation("messages", "anthropic", generates=True)
_COUNT_TOKENS = Operation(dialect="anthropic")
_NATIVE = Operation("native", generates=True)
_PLAIN = Operation()
RAW = _PLAIN  # /upstream: nothing is known of it
_PEEK = Operation(waits=False)

_VERSIONED = {
    "/chat/completions": _CHAT,
    "/completions": _COMPLETIONS,
    "/responses": _RESPONSES,
    "/messages": _MESSAGES,
    "/messages/count_tokens": _COUNT_TOKENS,
    "/embeddings": _PLAIN,
    "/rerank": _PLAIN,
    "/reranking": _PLAIN,
    "/score": _PLAIN,
}
# Served by llama-server (tools/server) and vLLM without a version in front.
_BARE = {
    "/completion": _NATIVE,
    "/infill": _NATIVE,
    "/embedding": _PLAIN,
    "/tokenize": _PEEK,
    "/detokenize": _PEEK,
    "/apply-template": _PEEK,
    "/props": _PEEK,
    "/slots": _PEEK,
    "/v1/audio/voices": _PEEK,
    "/v2/rerank": _PLAIN,
    "/pooling": _PLAIN,
    "/classify": _PLAIN,
}
OPERATIONS: dict[str, Operation] = {
    **{f"/v1{path}": operation for path, operation in _VERSIONED.items()},
    **_VERSIONED,
    **_BARE,
}
_PREFIXES = ("/v1/audio/", "/v1/images/")
_GET_PATHS = frozenset({"/props", "/slots", "/v1/audio/voices"})


def find(path: str) -> Operation | None:
    """The operation of a path, or None when it is not the data path's."""
    operation = OPERATIONS.get(path)
    if operation is None and path.startswith(_PREFIXES):
        return _PLAIN
    return operation


def methods(path: str) -> tuple[str, ...]:
    """The methods a data path answers."""
    return ("GET", "POST") if path in _GET_PATHS else ("POST",)


def dialect_of(path: str) -> Dialect:
    """The error dialect of any path, known or not."""
    operation = find(path)
    if operation is not None:
        return operation.dialect
    return "anthropic" if path.startswith("/v1/messages") else "openai"
