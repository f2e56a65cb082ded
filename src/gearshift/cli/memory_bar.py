"""A device's memory as one stacked bar: a colour and a glyph for each use, so that it reads without colour too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, pairwise

from rich.text import Text

_COLOURS = ("blue", "green", "magenta", "yellow", "cyan", "red")


@dataclass(frozen=True, slots=True)
class Glyphs:
    """What a bar is drawn with; neighbours always differ."""

    fills: str
    free: str
    limit: str  # where the device ends, in a bar that is longer than it


BLOCKS = Glyphs("█▓▒░", "·", "|")
ASCII = Glyphs("#=+:", ".", "|")


def glyphs_for(encoding: str | None) -> Glyphs:
    """Blocks where the terminal's or pipe's encoding has them."""
    try:
        (BLOCKS.fills + BLOCKS.free).encode(encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return BLOCKS


def cells(sizes: Sequence[int], scale: int, width: int) -> list[int]:
    """How many of ``width`` cells each size takes when ``scale`` fills them all; rounding never adds up.

    The cells of all sizes together are those of their sum, and never more than ``width`` unless they exceed ``scale``.
    """
    ends, total = [0], 0
    for size in sizes:
        total += size
        ends.append((2 * total * width + scale) // (2 * scale) if scale > 0 else 0)
    return [end - begin for begin, end in pairwise(ends)]


def keys(count: int, glyphs: Glyphs) -> list[Text]:
    """One coloured glyph for each use, for the legend."""
    pairs = zip(range(count), cycle(glyphs.fills), cycle(_COLOURS), strict=False)
    return [Text(glyph, style=colour) for _, glyph, colour in pairs]


def memory_bar(sizes: Sequence[int], total: int | None, width: int, glyphs: Glyphs) -> Text:
    """The uses in order, then what is free. A bar that exceeds the device has a mark where the device ends."""
    used = sum(sizes)
    scale = max(used, total or 0, 1)
    bar = Text()
    for key, count in zip(keys(len(sizes), glyphs), cells(sizes, scale, width), strict=True):
        bar.append(key.plain * count, style=key.style)
    bar.append(glyphs.free * (width - len(bar)), style="dim")
    if total is None or total >= used:
        return bar
    limit = min(total * width // scale, width - 1)
    return Text.assemble(bar[:limit], (glyphs.limit, "bold red"), bar[limit + 1 :])
