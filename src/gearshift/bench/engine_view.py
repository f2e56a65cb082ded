"""The engine's own TTFT and TPOT over a cell, and ours over the same requests beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from gearshift.bench.counters import Difference
from gearshift.bench.sample import EngineTimings, Sample
from gearshift.bench.trial import Trial


@dataclass(frozen=True, slots=True)
class EngineView:
    """Means over the cell's requests, by the engine and by the client; None = it does not say, or not of the same ones.

    Means, because a histogram keeps a sum and a count: the figures of a cell are medians and differ from these.
    """

    ttft_s: float | None = None
    tpot_s: float | None = None
    client_ttft_s: float | None = None
    client_tpot_s: float | None = None

    @property
    def ttft_later_s(self) -> float | None:
        """How much later the client has the first token than the engine: the way there and back, and a queue."""
        if self.ttft_s is None or self.client_ttft_s is None:
            return None
        return self.client_ttft_s - self.ttft_s

    @property
    def tpot_ratio(self) -> float | None:
        """The client's TPOT over the engine's."""
        return self.client_tpot_s / self.tpot_s if self.client_tpot_s is not None and self.tpot_s else None

    def to_json(self) -> dict[str, float | None]:
        return {
            "ttft_s": self.ttft_s,
            "tpot_s": self.tpot_s,
            "client_ttft_s": self.client_ttft_s,
            "client_tpot_s": self.client_tpot_s,
            "ttft_later_s": self.ttft_later_s,
            "tpot_ratio": self.tpot_ratio,
        }


def engine_view(trials: Sequence[Trial]) -> EngineView:
    """From llama-server's timings of each answer, or from vLLM's histograms."""
    good = [sample for trial in trials for sample in trial.good]
    timed = [(sample, sample.timings) for sample in good if sample.timings is not None]
    if timed:
        return _by_timings(timed)
    return _by_histograms([trial.counted for trial in trials if trial.counted is not None], good)


def _by_timings(timed: Sequence[tuple[Sample, EngineTimings]]) -> EngineView:
    steps = [
        (sample.tpot_s, timings.decode_s / (timings.tokens - 1))
        for sample, timings in timed
        if timings.tokens > 1 and sample.tpot_s is not None
    ]
    return EngineView(
        ttft_s=fmean(timings.prompt_s for _, timings in timed),
        tpot_s=_mean([theirs for _, theirs in steps]),
        client_ttft_s=_mean([sample.ttft_s for sample, _ in timed if sample.ttft_s is not None]),
        client_tpot_s=_mean([ours for ours, _ in steps]),
    )


def _by_histograms(counted: Sequence[Difference], good: Sequence[Sample]) -> EngineView:
    ttfts = [sample.ttft_s for sample in good if sample.ttft_s is not None]
    tpots = [sample.tpot_s for sample in good if sample.tpot_s is not None]
    counters = [found.counters for found in counted]
    ttft_count = sum(found.ttft_count or 0 for found in counters)
    tpot_count = sum(found.tpot_count or 0 for found in counters)
    return EngineView(
        ttft_s=sum(found.ttft_sum_s or 0 for found in counters) / ttft_count if ttft_count else None,
        tpot_s=sum(found.tpot_sum_s or 0 for found in counters) / tpot_count if tpot_count else None,
        client_ttft_s=_mean(ttfts) if len(ttfts) == ttft_count else None,
        client_tpot_s=_mean(tpots) if len(tpots) == tpot_count else None,
    )


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
