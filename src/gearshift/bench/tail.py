"""The tail of a cell: its slow requests, as far out as their number can tell."""

from __future__ import annotations

from collections.abc import Sequence

from gearshift.bench.sample import Sample
from gearshift.stats.percentiles import sorted_percentile

_LEVELS = {"p90": 90, "p99": 99}


def tail(samples: Sequence[Sample]) -> dict[str, dict[str, float | None] | None]:
    """TTFT and TPOT of requests and the gaps between chunks, all trials together: p90, p99 and the worst.

    A percentile is None where fewer values than 1 in its share are there, since nothing but the worst stands for it.
    """
    return {
        "ttft_s": _of([sample.ttft_s for sample in samples if sample.ttft_s is not None]),
        "tpot_s": _of([sample.tpot_s for sample in samples if sample.tpot_s is not None]),
        "chunk_gap_s": _of([gap for sample in samples for gap in sample.chunk_gaps_s]),
    }


def _of(values: Sequence[float]) -> dict[str, float | None] | None:
    if not values:
        return None
    ordered = sorted(values)
    told = {
        name: sorted_percentile(ordered, level) if len(ordered) * (100 - level) >= 100 else None  # noqa: PLR2004 - percent
        for name, level in _LEVELS.items()
    }
    return {**told, "max": ordered[-1]}
