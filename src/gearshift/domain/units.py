"""Durations, byte sizes and token counts as people write them. Parsing raises ValueError with the value."""

from __future__ import annotations

import re

KIB, MIB, GIB = 1024, 1024**2, 1024**3

_DURATION = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {
    "": 1, "b": 1,
    "k": 1000, "kb": 1000, "m": 1000**2, "mb": 1000**2, "g": 1000**3, "gb": 1000**3, "t": 1000**4, "tb": 1000**4,
    "kib": KIB, "mib": MIB, "gib": GIB, "tib": 1024**4,
}  # fmt: skip
_NUMBER_UNIT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")
_POWER_OF_TEN = re.compile(r"\s*[0-9]+(?:\.[0-9]+)?[eE]\+?[0-9]{1,2}\s*")
_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")


def parse_duration(text: str | float) -> float:
    """Seconds from ``"10m"``, ``"1h30m"``, ``"250ms"`` or a plain number of seconds."""
    if isinstance(text, int | float):
        return _not_negative(float(text), text)
    compact = text.replace(" ", "")
    parts = _DURATION_PART.findall(compact)
    if compact and "".join(number + unit for number, unit in parts) == compact:
        return sum(float(number) * _DURATION[unit] for number, unit in parts)
    try:
        return _not_negative(float(compact), text)
    except ValueError:
        msg = f"{text!r} is not a duration; write for example 90s, 10m or 1h30m"
        raise ValueError(msg) from None


def parse_bytes(text: str | float) -> int:
    """Bytes from ``"24GiB"`` (binary), ``"9.15GB"`` (decimal), ``"9.15e9"`` or a plain number of bytes."""
    if isinstance(text, int | float):
        return int(_not_negative(text, text))
    if _POWER_OF_TEN.fullmatch(text):
        return round(float(text))
    match = _NUMBER_UNIT.fullmatch(text)
    factor = _BYTES.get(match[2].lower()) if match else None
    if match is None or factor is None:
        msg = f"{text!r} is not a size; write for example 24GiB, 9.15GB or a number of bytes"
        raise ValueError(msg)
    return int(float(match[1]) * factor)


IN_TOKENS = "8k = 8000, 8K = 8192"  # for help texts: how `parse_tokens` reads what people write


def parse_tokens(text: str | float) -> int:
    """Tokens from ``32768``, ``"32K"`` (1024) or ``"32k"`` (1000), as vLLM reads them."""
    if isinstance(text, int | float):
        return int(_not_negative(text, text))
    match = _NUMBER_UNIT.fullmatch(text)
    factors = {"": 1, "k": 1000, "K": 1024, "m": 1000**2, "M": 1024**2}
    if match is None or match[2] not in factors:
        msg = f"{text!r} is not a token count; write for example 32768, 32K (32,768) or 32k (32,000)"
        raise ValueError(msg)
    return int(float(match[1]) * factors[match[2]])


def format_bytes(count: float) -> str:
    """``"23.3 GiB"``: three significant figures with the binary unit."""
    for unit, size in (("TiB", 1024**4), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if count >= size:
            return f"{count / size:.3g} {unit}" if count < 1000 * size else f"{count / size:.0f} {unit}"
    return f"{count:.0f} B"


def format_duration(seconds: float) -> str:
    """``"340 ms"``, ``"12.3 s"``, ``"4m05s"`` or ``"2h10m"``."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:  # noqa: PLR2004 - sixty seconds to the minute
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{rest:02d}s"


def _not_negative(number: float, text: object) -> float:
    if number < 0:
        msg = f"{text!r} is negative"
        raise ValueError(msg)
    return number
