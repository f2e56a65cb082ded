"""llama.cpp's buffers gathered from its log: contexts, passes and restarts told apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from gearshift.domain.startup import BufferContext, BufferKind, DeviceBuffer

_ORDER: Mapping[BufferKind, int] = {"output": 0, "kv": 1, "state": 2, "compute": 3}  # inside a context
_CONTEXTS: tuple[BufferContext, ...] = ("target", "draft")


def on_host(device: str) -> bool:
    """Whether a buffer lies in host memory; ``MTL0_Mapped`` is a view of MTL0 and does not."""
    return device.startswith("CPU") or device.endswith("_Host")


@dataclass(frozen=True, slots=True)
class Buffers:
    """The buffers of one load so far.

    The target's and the draft's context print the same names, so a buffer's context is the number of contexts begun
    before it. ``pending`` says that a context was announced and has printed nothing yet: the announcement of a draft
    context is followed by the general one, and the two are one context.
    """

    entries: tuple[DeviceBuffer, ...] = ()
    context: int = 0
    last: int = -1  # the order of the context's latest line
    pending: bool = False

    def announce(self) -> Self:
        """A context begins, unless one was just announced or nothing was printed since the load began."""
        if self.pending or self.last < 0:
            return replace(self, pending=True)
        return replace(self, context=self.context + 1, last=-1, pending=True)

    def weights(self, device: str, count: int) -> Self:
        """A model buffer. After a context's lines it opens a new pass: what came before was a probe."""
        kept = () if self.last >= 0 else self.entries
        entry = DeviceBuffer(device, "weights", count, host=on_host(device))
        return replace(self, entries=(*kept, entry), context=0, last=-1, pending=False)

    def add(self, kind: BufferKind, device: str, count: int) -> Self:
        """A context's buffer; a line of an earlier kind than the last one shows that another context began."""
        order = _ORDER[kind]
        opened = self if order >= self.last else replace(self, context=self.context + 1)
        name = _CONTEXTS[min(opened.context, len(_CONTEXTS) - 1)]
        entry = DeviceBuffer(device, kind, count, name, on_host(device))
        return replace(opened, entries=_placed(opened.entries, entry), last=order, pending=False)

    def vision(self, kind: BufferKind, device: str, count: int) -> Self:
        """A buffer of the multimodal projector, which belongs to neither context."""
        entry = DeviceBuffer(device, kind, count, "vision", on_host(device))
        return replace(self, entries=_placed(self.entries, entry))

    @property
    def shared_out(self) -> bool:
        """Whether tensor mode shares everything out: its one device stands for each card, with its share."""
        return any(entry.device == "Meta()" for entry in self.entries)

    def total(self, kind: BufferKind) -> int | None:
        """Bytes of one kind over devices and contexts, or on the host where nothing else is named; None = no line."""
        named = [entry for entry in self.entries if entry.device]  # the projector's weights name no device
        devices = [entry for entry in named if not entry.host] or named
        found = [entry.bytes for entry in devices if entry.kind == kind]
        return sum(found) if found else None


def _placed(entries: tuple[DeviceBuffer, ...], new: DeviceBuffer) -> tuple[DeviceBuffer, ...]:
    """Compute buffers are reserved again and the last counts; the two KV caches of a sliding-window model add up."""
    for index, old in enumerate(entries):
        if (old.context, old.device, old.kind) == (new.context, new.device, new.kind):
            merged = replace(new, bytes=old.bytes + new.bytes) if new.kind == "kv" else new
            return (*entries[:index], merged, *entries[index + 1 :])
    return (*entries, new)
