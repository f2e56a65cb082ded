"""Values that do not belong, and series that move: outliers, odd first runs, trends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist

from gearshift.stats.percentiles import median

_CUT = 3.5  # Iglewicz and Hoaglin's limit for the modified z-score
_SCALE = 1.4826  # MAD to standard deviation for normal noise
_FEWEST = 5  # below this, no value can be told from the rest


@dataclass(frozen=True, slots=True)
class Trend:
    """A monotonic move over a series: relative change from first to last (Theil-Sen line) and its p-value."""

    change: float
    p: float


def outliers(values: Sequence[float], *, least_share: float = 0.02) -> tuple[int, ...]:
    """Indices of values far from the median by the modified z-score and by at least ``least_share`` of it.

    The second condition keeps a very quiet series from naming harmless jitter. Fewer than five values have none.
    """
    if len(values) < _FEWEST:
        return ()
    centre = median(values)
    spread = _SCALE * median([abs(value - centre) for value in values])
    limit = max(_CUT * spread, least_share * abs(centre))
    return tuple(index for index, value in enumerate(values) if abs(value - centre) > limit)


def first_is_odd(values: Sequence[float], *, least_share: float = 0.05) -> bool:
    """Whether the first of three or more runs lies apart from the rest by far more than the rest among themselves."""
    if len(values) < 3:  # noqa: PLR2004 - two others are needed to say what is usual
        return False
    rest = values[1:]
    spread = max(rest) - min(rest)
    return abs(values[0] - median(rest)) > max(3 * spread, least_share * abs(median(rest)))


def trend(values: Sequence[float]) -> Trend | None:
    """Mann and Kendall's test with the Theil-Sen slope; None below five values or a median of 0."""
    count, centre = len(values), median(values) if values else 0.0
    if count < _FEWEST or centre == 0:
        return None
    pairs = list(combinations(range(count), 2))
    slope = median([(values[j] - values[i]) / (j - i) for i, j in pairs])
    score = sum(_sign(values[j] - values[i]) for i, j in pairs)
    deviation = math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    z = (abs(score) - 1) / deviation if score else 0.0
    return Trend(change=slope * (count - 1) / centre, p=min(1.0, 2 * (1 - NormalDist().cdf(z))))


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)
