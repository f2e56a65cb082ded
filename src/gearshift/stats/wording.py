"""The figures of a comparison in words, the same in a terminal and in a report."""

from __future__ import annotations


def format_change(share: float, *, digits: int = 1) -> str:
    """``"-4.7%"``; what is at least ten times as much as before is told as such: ``"642 times"``."""
    return f"{share:+.{digits}%}" if share < 9 else f"{1 + share:,.0f} times"  # noqa: PLR2004 - ten times is +900 %


def format_paired(pairs: int) -> str:
    """Of what a paired change is the mean: it need not be the ratio of the two sides' medians."""
    return f"paired: the mean ratio of {pairs} pairs of neighbouring trials" if pairs > 1 else "paired: of one pair"


def format_detectable(share: float, *, digits: int = 1) -> str:
    """The smallest difference that would have been seen, in words; where it is a doubling, that this says nothing."""
    if share < 1:
        return f"a difference of {share:.{digits}%} would have been seen"
    return (
        f"too noisy, not even a change to {1 + share:,.0f} times is sure to be seen: repeat more, or on a box at rest"
    )
