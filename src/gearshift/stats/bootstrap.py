"""Bootstrap intervals: percentile, BCa, and hierarchical over boot > trial > request.

Sources: Efron and Tibshirani, An Introduction to the Bootstrap, chapters 13 and 14 (percentile, BCa); Rao and Wu,
Resampling Inference With Complex Survey Data (1988), for drawing n - 1 of n units where there are few.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from statistics import NormalDist
from typing import Literal, TypeVar

from gearshift.stats.percentiles import median, sorted_percentile

Statistic = Callable[[Sequence[float]], float]
Boots = Sequence[Sequence[Sequence[float]]]  # values by boot, trial, request
_Unit = TypeVar("_Unit")
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Interval:
    """Ends of a two-sided interval."""

    low: float
    high: float


def bootstrap(
    values: Sequence[float],
    statistic: Statistic = median,
    *,
    method: Literal["percentile", "bca"] = "bca",
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """An interval for ``statistic`` over independent ``values``.

    BCa corrects bias and skew; where it is undefined (all values equal, or every replicate on one side) the percentile
    interval is given.

    Raises:
        ValueError: fewer than two values.
    """
    _need(values, 2)
    random = Random(seed)  # noqa: S311 - reproducible resampling
    replicates = sorted(statistic(random.choices(values, k=len(values))) for _ in range(resamples))
    tail = (1 - level) / 2
    ends = (tail, 1 - tail)
    if method == "bca":
        ends = _bca_ends(values, statistic, replicates, ends)
    return Interval(sorted_percentile(replicates, 100 * ends[0]), sorted_percentile(replicates, 100 * ends[1]))


def hierarchical_bootstrap(
    boots: Boots, statistic: Statistic = median, *, level: float = 0.95, resamples: int = 1000, seed: int = 0
) -> Interval:
    """A percentile interval for ``statistic`` over all values, resampled at each level of boot > trial > request.

    Requests of one trial share its luck, and trials of one boot share theirs, so resampling requests alone would claim
    far too much. Boots and trials are few, and drawing n of n would understate their variance by (n - 1)/n: n - 1 of n
    are drawn. A level with one member contributes no variance, which the caller has to say.

    Raises:
        ValueError: no values at all.
    """
    kept = [[trial for trial in boot if trial] for boot in boots]
    kept = [boot for boot in kept if boot]
    _need(kept, 1)
    random = Random(seed)  # noqa: S311 - reproducible resampling
    replicates = sorted(statistic(_resample(kept, random)) for _ in range(resamples))
    tail = 50 * (1 - level)
    return Interval(sorted_percentile(replicates, tail), sorted_percentile(replicates, 100 - tail))


def _resample(boots: Boots, random: Random) -> list[float]:
    drawn: list[float] = []
    for boot in _draw(boots, random):
        for trial in _draw(boot, random):
            drawn += trial if len(trial) == 1 else random.choices(trial, k=len(trial))
    return drawn


def _draw(units: Sequence[_Unit], random: Random) -> list[_Unit]:
    return list(units) if len(units) == 1 else random.choices(units, k=len(units) - 1)


def _bca_ends(
    values: Sequence[float], statistic: Statistic, replicates: Sequence[float], ends: tuple[float, float]
) -> tuple[float, float]:
    """Where the adjusted interval's ends lie among the replicates, as shares."""
    centre = statistic(values)
    below = sum(replicate < centre for replicate in replicates) + sum(value == centre for value in replicates) / 2
    share = below / len(replicates)
    if not 0 < share < 1:
        return ends
    bias, skew = _NORMAL.inv_cdf(share), _acceleration(values, statistic)

    def adjusted(end: float) -> float:
        z = bias + _NORMAL.inv_cdf(end)
        return _NORMAL.cdf(bias + z / (1 - skew * z))

    return adjusted(ends[0]), adjusted(ends[1])


def _acceleration(values: Sequence[float], statistic: Statistic) -> float:
    """Skewness of the leave-one-out statistics; 0 where they do not vary."""
    left_out = [statistic([*values[:index], *values[index + 1 :]]) for index in range(len(values))]
    mean = sum(left_out) / len(left_out)
    squares = sum((mean - value) ** 2 for value in left_out)
    return sum((mean - value) ** 3 for value in left_out) / (6 * squares**1.5) if squares > 0 else 0.0


def _need(values: Sequence[object], least: int) -> None:
    if len(values) < least:
        msg = f"an interval needs {least} values, not {len(values)}"
        raise ValueError(msg)
