"""A trial unlike the others, or a series that moves, is named with what the data knows of its cause."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gearshift.bench import causes
from gearshift.bench.gpus import GpuReport
from gearshift.bench.trial import Trial
from gearshift.bench.watch import WatchReport

QUIET = WatchReport(wall_s=2.0, loop_lag_s=0.0, cpu=0.05, foreign_cpu=0.01, cores=8)
GIB = 2**30
GPU = GpuReport("GPU-0", (1700, 1700), 300.0, 60, 20 * GIB, 600.0, ())
USUAL = Trial((), QUIET, None, None, 0.0, gpus=(GPU,))


@pytest.mark.parametrize(
    ("trial", "said"),
    [
        (replace(USUAL, gpus=(replace(GPU, throttle=("thermal",)),)), "slowed down in it (thermal)"),
        (replace(USUAL, watch=replace(QUIET, foreign_cpu=0.9)), "other programs used 0.90 cores"),
        (replace(USUAL, gpus=(replace(GPU, used_bytes=21 * GIB),)), "1 GiB more were on the GPU"),
        (replace(USUAL, boot=1), "first after a start"),
        (USUAL, "nothing else shows why"),
    ],
)
def test_what_was_different_in_an_outlier_is_its_likely_cause(trial: Trial, said: str) -> None:
    trials = [USUAL, USUAL, USUAL, trial, USUAL]
    assert said in causes.of_outlier(trials, 3, foreign_cores=0.25)


def test_a_first_trial_that_shows_nothing_else_is_told_to_be_the_first() -> None:
    assert causes.of_outlier([USUAL] * 4, 0, foreign_cores=0.25) == "it is the first"


def test_a_throttle_that_all_trials_have_explains_none_of_them() -> None:
    hot = replace(USUAL, gpus=(replace(GPU, throttle=("power",)),))
    assert "slowed" not in causes.of_outlier([hot] * 5, 3, foreign_cores=0.25)


@pytest.mark.parametrize(
    ("last", "said"),
    [
        (replace(USUAL, gpus=(replace(GPU, throttle=("thermal",)),)), "slowed down"),
        (replace(USUAL, watch=replace(QUIET, foreign_cpu=0.9)), "cores changed"),
        (replace(USUAL, gpus=(replace(GPU, used_bytes=19 * GIB),)), "1 GiB came onto the GPU or left it"),
        (USUAL, "heat"),
    ],
)
def test_a_drift_is_named_with_what_changed_over_it(last: Trial, said: str) -> None:
    assert said in causes.of_drift([USUAL, USUAL, last], foreign_cores=0.25)
