"""A figure with what is known of its spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from gearshift.stats.bootstrap import Boots, hierarchical_bootstrap
from gearshift.stats.percentiles import median


@dataclass(frozen=True, slots=True)
class Estimate:
    """A median over all requests with its 95 % interval; the ends are None for a single run."""

    median: float
    low: float | None
    high: float | None


def estimate_json(found: Estimate | None) -> dict[str, float | None] | None:
    """The JSON of every estimate there is; null for none."""
    return {"median": found.median, "low": found.low, "high": found.high} if found else None


def overlap(one: Estimate, other: Estimate) -> bool | None:
    """Whether their intervals touch, so that the data cannot tell them apart; None where one has no interval."""
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return None
    return one.low <= other.high and other.low <= one.high


def estimate(boots: Boots, *, seed: int = 0) -> Estimate | None:
    """The estimate over boot > trial > request; None without values.

    One trial of one boot is a single run: its requests show the spread inside that run only, so no interval is given.
    """
    return _estimate(tuple(tuple(tuple(trial) for trial in boot) for boot in boots), seed)


@lru_cache(maxsize=1024)
def _estimate(boots: Boots, seed: int) -> Estimate | None:
    """Kept, because a cell's figure is asked for by its record, its document, the advice and the figures made of it."""
    trials = [trial for boot in boots for trial in boot if trial]
    values = [value for trial in trials for value in trial]
    if not values:
        return None
    if len(trials) == 1:
        return Estimate(median(values), None, None)
    interval = hierarchical_bootstrap(boots, seed=seed)
    return Estimate(median(values), interval.low, interval.high)


def estimate_trials(trials: Sequence[float], *, seed: int = 0) -> Estimate | None:
    """The estimate of a figure that exists once a trial, such as total throughput."""
    return estimate([[[value] for value in trials]], seed=seed)
