"""Percentiles by one stated definition, so that no two tables of ours disagree."""

from __future__ import annotations

from collections.abc import Sequence


def percentile(values: Sequence[float], q: float) -> float:
    """The ``q``-th percentile (0 to 100), linear between order statistics: Hyndman and Fan's type 7, NumPy's default.

    Raises:
        ValueError: no values, or ``q`` outside 0..100.
    """
    return sorted_percentile(sorted(values), q)


def sorted_percentile(ordered: Sequence[float], q: float) -> float:
    """`percentile` of values that are sorted already."""
    if not ordered:
        msg = "a percentile of no values"
        raise ValueError(msg)
    if not 0 <= q <= 100:  # noqa: PLR2004 - percent
        msg = f"percentile {q} is outside 0..100"
        raise ValueError(msg)
    place = (len(ordered) - 1) * q / 100
    below = int(place)
    if below + 1 >= len(ordered):
        return ordered[-1]
    low, high = ordered[below], ordered[below + 1]
    # Written so that equal neighbours give exactly their value, whatever the rounding of the weight.
    return low + (high - low) * (place - below)


def median(values: Sequence[float]) -> float:
    """The 50th percentile."""
    return percentile(values, 50)
