"""Where a value stands in a document: its keys and list positions from the top."""

from __future__ import annotations

KeyPath = tuple[str | int, ...]


def dotted(path: KeyPath) -> str:
    """``models.qwen.aliases[0]``; nothing for the whole document."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def child(value: object, part: str | int) -> object:
    """What stands in a mapping or list under one key or position. Raises LookupError."""
    if isinstance(value, dict) and part in value:
        return value[part]
    if isinstance(value, list) and isinstance(part, int):
        return value[part]
    raise LookupError(part)
