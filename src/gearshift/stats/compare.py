"""Is B better than A? Paired, in alternating order, with the smallest difference that could have been seen.

Trials are run as A B, B A, A B, ... (ABBA). Each pair gives the logarithm of B over A. Running second has an effect of
its own (heat, clocks, caches), with opposite sign in the two orders; it is fitted beside the difference, so it neither
shifts nor widens it. What is left is noise, and Student's t gives the interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gearshift.stats.student import t_quantile

Result = Literal["better", "worse", "cannot_tell"]


@dataclass(frozen=True, slots=True)
class Pair:
    """One trial of each side, run next to each other. Positive figures, such as tok/s or seconds."""

    a: float
    b: float
    a_first: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """B against A as relative change: 0.05 = B's figure is 5 % higher. None = too few pairs to say."""

    result: Result
    change: float
    low: float | None
    high: float | None
    smallest_detectable: float | None  # found four times out of five, if it were there
    order_effect: float | None  # relative change of whoever runs second
    pairs: int


def compare(pairs: Sequence[Pair], *, higher_is_better: bool, level: float = 0.95, power: float = 0.8) -> Verdict:
    """Judge B against A.

    Raises:
        ValueError: no pairs, or a figure that is not positive.
    """
    ratios = [_log_ratio(pair) for pair in pairs]
    if not ratios:
        msg = "a comparison needs at least one pair"
        raise ValueError(msg)
    signs = [1.0 if pair.a_first else -1.0 for pair in pairs]
    difference, order = _fit(ratios, signs)
    error, freedom = _standard_error(ratios, signs, difference, order)
    if error is None:
        return Verdict("cannot_tell", math.expm1(difference), None, None, None, None, len(pairs))
    half = t_quantile(0.5 + level / 2, freedom) * error
    low, high = difference - half, difference + half
    return Verdict(
        result=_result(low, high, higher_is_better=higher_is_better),
        change=math.expm1(difference),
        low=math.expm1(low),
        high=math.expm1(high),
        smallest_detectable=math.expm1(half + t_quantile(power, freedom) * error),
        order_effect=math.expm1(order),
        pairs=len(pairs),
    )


def _fit(ratios: Sequence[float], signs: Sequence[float]) -> tuple[float, float]:
    """Least squares of ratio = difference + order * sign. One order only: the two cannot be told apart."""
    count, balance = len(ratios), sum(signs)
    total, signed = sum(ratios), sum(ratio * sign for ratio, sign in zip(ratios, signs, strict=True))
    determinant = count * count - balance * balance
    if determinant == 0:
        return total / count, 0.0
    return (count * total - balance * signed) / determinant, (count * signed - balance * total) / determinant


def _standard_error(
    ratios: Sequence[float], signs: Sequence[float], difference: float, order: float
) -> tuple[float | None, int]:
    """Of the difference, with its degrees of freedom; None where nothing is left to estimate noise from."""
    count, balance = len(ratios), sum(signs)
    one_order = abs(balance) == count
    freedom = count - (1 if one_order else 2)
    if freedom < 1:
        return None, freedom
    squares = sum((r - difference - order * s) ** 2 for r, s in zip(ratios, signs, strict=True))
    spread = count if one_order else (count * count - balance * balance) / count
    return math.sqrt(squares / freedom / spread), freedom


def _result(low: float, high: float, *, higher_is_better: bool) -> Result:
    if low <= 0 <= high:
        return "cannot_tell"
    return "better" if (low > 0) == higher_is_better else "worse"


def _log_ratio(pair: Pair) -> float:
    if pair.a <= 0 or pair.b <= 0:
        msg = f"a comparison needs positive figures, not {pair.a} and {pair.b}"
        raise ValueError(msg)
    return math.log(pair.b / pair.a)
