"""Statistics over measurements: pure functions of numbers; randomness only by a stated seed."""

from gearshift.stats.bootstrap import Interval, bootstrap, hierarchical_bootstrap
from gearshift.stats.compare import Pair, Verdict, compare
from gearshift.stats.drift import Trend, first_is_odd, outliers, trend
from gearshift.stats.estimate import Estimate, estimate
from gearshift.stats.percentiles import median, percentile, sorted_percentile

__all__ = [
    "Estimate",
    "Interval",
    "Pair",
    "Trend",
    "Verdict",
    "bootstrap",
    "compare",
    "estimate",
    "first_is_odd",
    "hierarchical_bootstrap",
    "median",
    "outliers",
    "percentile",
    "sorted_percentile",
    "trend",
]
