"""Figures as people read them: three significant digits, the unit beside them, the interval behind them."""

from __future__ import annotations

from collections.abc import Sequence

from gearshift.report.documents import Cell, Value

NONE = "-"
LABELS = {
    "ttft_s": "TTFT",
    "tpot_s": "TPOT",
    "chunk_gap_s": "chunk gap",
    "e2e_s": "end to end",
    "decode_tok_s": "decode tok/s",
    "prefill_tok_s": "prefill tok/s",
    "output_tok_s": "output tok/s",
    "first_token_s": "first token",
}
_THOUSAND = 1000.0
_MOST_POSITIONS, _REACHED = 8, 0.005


def figure(value: Value | None, name: str) -> str:
    """``41.2 (39.8 to 42.7)`` or ``340 ms (331 to 352 ms)``; a mean says that it is one."""
    if value is None:
        return NONE
    scale, unit = _unit(value.value, name)
    text = f"{_digits(value.value * scale)}{unit}"
    if value.low is not None and value.high is not None and value.high > value.low:
        text += f" ({_digits(value.low * scale)} to {_digits(value.high * scale)}{unit})"
    return f"{text}, mean" if value.of == "mean" else text


def number(value: float, name: str) -> str:
    """A rate, or a time with its unit."""
    scale, unit = _unit(value, name)
    return f"{_digits(value * scale)}{unit}"


def _unit(value: float, name: str) -> tuple[float, str]:
    if name.endswith("tok_s"):
        return 1.0, ""
    return (1.0, " s") if value >= 1 else (_THOUSAND, " ms")


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= _THOUSAND else f"{value:.3g}"


def tokens(count: float) -> str:
    """``131,072``."""
    return f"{count:,.0f}"


def share(value: float | None) -> str:
    """``83 %``."""
    return NONE if value is None else f"{value:.0%}".replace("%", " %")


def positions(rates: Sequence[float]) -> tuple[float, ...]:
    """The first positions, without those that hardly any draft reached: an n-gram drafter has 64."""
    reached = [number for number, rate in enumerate(rates, 1) if rate >= _REACHED]
    return tuple(rates[: min(_MOST_POSITIONS, max(reached, default=1))])


def place(cell: Cell) -> str:
    """Which point of its experiment a cell is."""
    parts = (cell.setting, place_of(cell.concurrency, cell.depth))
    return ", ".join(part for part in parts if part) or "the only cell"


def place_of(concurrency: int | None, depth: int | None) -> str:
    """``4 streams, 1,024 tokens``, as far as they are known."""
    streams = None if concurrency is None else f"{concurrency} stream{'s' if concurrency != 1 else ''}"
    return ", ".join(part for part in (streams, None if depth is None else f"{tokens(depth)} tokens") if part)
