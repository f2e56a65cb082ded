"""The invariants of our own cells: the same that imported files are held to."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean

from gearshift.bench.accounts import isolation, reconciliation, server_first
from gearshift.bench.plan import CellPlan
from gearshift.bench.sample import Sample
from gearshift.bench.trial import Trial
from gearshift.stats import invariants
from gearshift.stats.invariants import Check

_BUCKET_S = 1.0


def checks(plan: CellPlan, trials: Sequence[Trial]) -> tuple[Check, ...]:
    """Every invariant that the cell's data can judge, and those it cannot."""
    good = [sample for trial in trials for sample in trial.good]
    limit = None if plan.rate is not None else plan.concurrency
    rate, e2e_s, tokens_s = _rates(trials)
    return (
        invariants.completed_gt_0(len(good)),
        invariants.in_flight_le_concurrency(max((_most_in_flight(trial) for trial in trials), default=None), limit),
        invariants.peak_ge_mean(max((_peak(trial) for trial in trials), default=None), tokens_s),
        _acceptance(trials),
        reconciliation(trials),
        server_first(trials),
        isolation(trials),
        invariants.little(rate, e2e_s, limit),
    )


def _acceptance(trials: Sequence[Trial]) -> Check:
    found = [trial.counted.acceptance for trial in trials if trial.counted is not None]
    known = [acceptance for acceptance in found if acceptance is not None]
    checked = [invariants.acceptance_sums_to_length(one.per_position, one.mean_length) for one in known]
    failed = [check for check in checked if check.ok is False]
    return next(iter((*failed, *checked)), invariants.acceptance_sums_to_length(None, None))


def _rates(trials: Sequence[Trial]) -> tuple[float | None, float | None, float | None]:
    """Requests a second, mean time to the last token, and tokens a second of the fastest trial."""
    wall_s = sum(trial.wall_s for trial in trials)
    latencies = [sample.e2e_s for trial in trials for sample in trial.good if sample.e2e_s is not None]
    tokens = [trial.output_tokens / trial.wall_s for trial in trials if trial.output_tokens and trial.wall_s]
    return (
        sum(len(trial.good) for trial in trials) / wall_s if wall_s else None,
        fmean(latencies) if latencies else None,
        max(tokens, default=None),
    )


def _most_in_flight(trial: Trial) -> int:
    """By the stamps themselves; a request that ends where another starts was not beside it."""
    edges = [(sample.started_s, 1) for sample in trial.samples]
    edges += [(sample.started_s + sample.ended_s, -1) for sample in trial.samples]
    running = most = 0
    for _, step in sorted(edges):
        running += step
        most = max(most, running)
    return most


def _peak(trial: Trial) -> float:
    """Most tokens in any second; a request's tokens are spread evenly between its chunks, so that a chunk is not one.

    For a trial shorter than a second, tokens over its whole time.
    """
    moments = sorted(moment for sample in trial.good for moment in _token_moments(sample))
    if trial.wall_s < _BUCKET_S:
        return len(moments) / trial.wall_s if trial.wall_s else 0.0
    most, begin = 0, 0
    for end, moment in enumerate(moments):
        while moment - moments[begin] >= _BUCKET_S:
            begin += 1
        most = max(most, end - begin + 1)
    return most / _BUCKET_S


def _token_moments(sample: Sample) -> list[float]:
    tokens, stamps = sample.tokens or 0, sample.chunk_s
    if len(stamps) < 2 or tokens < 2:  # noqa: PLR2004 - nothing lies between
        return [sample.started_s + stamp for stamp in stamps[:tokens]]
    per_gap = (tokens - 1) / (len(stamps) - 1)
    moments = [sample.started_s + stamps[0]]
    owed = 0.0
    for before, after in pairwise(stamps):
        owed += per_gap
        count = int(owed + 1e-9)
        owed -= count
        moments += [sample.started_s + before + (after - before) * (number + 1) / count for number in range(count)]
    return moments
