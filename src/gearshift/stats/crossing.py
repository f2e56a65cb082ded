"""Where one thing stops paying: the level at which a ratio falls through one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise


def crossing(points: Sequence[tuple[float, float]]) -> float | None:
    """The first level, in ascending order of ``(level, ratio)``, at which the ratio falls from 1 or more to below 1.

    Interpolated in the logarithms of both, since levels and ratios are both multiplied rather than added; None where
    it never falls. Levels and ratios are above 0.
    """
    for (level, ratio), (next_level, next_ratio) in pairwise(points):
        if ratio >= 1 > next_ratio:
            share = math.log(ratio) / (math.log(ratio) - math.log(next_ratio))
            return math.exp(math.log(level) + share * (math.log(next_level) - math.log(level)))
    return None
