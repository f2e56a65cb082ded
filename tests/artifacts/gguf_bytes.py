"""The smallest GGUF writer: just enough of the format to make files that are whole, cut or wrong on purpose."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

Entry = bool | int | float | str | Sequence[bool] | Sequence[int] | Sequence[str]


def gguf_bytes(
    metadata: Mapping[str, Entry],
    tensors: Mapping[str, tuple[tuple[int, ...], int, int]] | None = None,
    *,
    version: int = 3,
    data: bool = True,
) -> bytes:
    """A file with ``metadata`` and ``tensors`` (name to shape, type number, bytes), offsets in order, no padding."""
    entries, offset = b"", 0
    for name, (shape, kind, size) in (tensors or {}).items():
        entries += _string(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        entries += struct.pack("<IQ", kind, offset)
        offset += -(-size // 32) * 32
    pairs = b"".join(_string(key) + _value(value) for key, value in metadata.items())
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors or {}), len(metadata)) + pairs + entries
    padded = head + bytes(-len(head) % 32)
    return padded + bytes(offset) if data else padded


def _string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _value(value: Entry) -> bytes:
    if isinstance(value, str | bool | int | float):
        kind, raw = _scalar(value)
        return struct.pack("<I", kind) + raw
    scalars = [_scalar(entry) for entry in value]
    kind = scalars[0][0] if scalars else 4
    return struct.pack("<IIQ", 9, kind, len(scalars)) + b"".join(raw for _, raw in scalars)


def _scalar(value: float | str) -> tuple[int, bytes]:
    match value:
        case bool():
            return 7, struct.pack("<B", value)
        case int():
            return 4, struct.pack("<I", value)
        case float():
            return 6, struct.pack("<f", value)
        case str():
            return 8, _string(value)
