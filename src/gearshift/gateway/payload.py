"""A request's body in its kinds: which model it names, whether it asks for a stream, how the engine gets it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from gearshift.domain.variant import Variant
from gearshift.gateway.document import Document
from gearshift.gateway.rewrite import Pieces, rewrite, usage_is_open
from gearshift.gateway.routes import Operation

# Their streams can be asked for usage; the other dialects always say it.
_ASKABLE = frozenset({"chat", "completions"})


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A body as the engine gets it: parts that are all here, or a stream of ``length`` bytes."""

    body: Pieces | AsyncIterator[bytes] | None
    length: int | None = None
    withhold: bool = False  # its usage chunk was asked for by us and is not the client's
    timings: bool = False  # the engine's streams tell their counts in llama.cpp's timings


class Payload(Protocol):
    """A body before its variant is known."""

    @property
    def model(self) -> str | None:
        """The model name in it. Raises RefusedError when it is no string."""
        ...

    @property
    def streams(self) -> bool:
        """Whether the client asked for an event stream."""
        ...

    def outgoing(self, operation: Operation, variant: Variant, served_name: str) -> Outgoing: ...


@dataclass(frozen=True, slots=True)
class JsonPayload:
    """A JSON object."""

    document: Document

    @property
    def model(self) -> str | None:
        return self.document.text("model")

    @property
    def streams(self) -> bool:
        return self.document.is_true("stream")

    def outgoing(self, operation: Operation, variant: Variant, served_name: str) -> Outgoing:
        ask = self._asks_usage(operation, variant)
        body = rewrite(self.document, variant, served_name, sampling=operation.generates, ask_usage=ask)
        return Outgoing(body, withhold=ask, timings=variant.engine.kind == "llama.cpp")

    def _asks_usage(self, operation: Operation, variant: Variant) -> bool:
        """Whether we ask for usage on the client's behalf.

        Not with llama.cpp: its timings hold the same counts and come in a stream's last chunk, whichever that is.
        Asking for a usage chunk would move them there, and withholding it would take them from the client.
        """
        return (
            operation.shape in _ASKABLE
            and variant.meter == "active"
            and variant.engine.kind != "llama.cpp"
            and self.streams
            and usage_is_open(self.document)
        )


@dataclass(frozen=True, slots=True)
class RawPayload:
    """A body that is sent as it came, unread. ``model`` is known from elsewhere, such as the path."""

    model: str | None
    body: AsyncIterator[bytes] | None = None
    length: int | None = None
    streams: bool = False

    def outgoing(self, operation: Operation, variant: Variant, served_name: str) -> Outgoing:  # noqa: ARG002 - Payload
        return Outgoing(self.body, self.length)
