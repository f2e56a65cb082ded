"""Our own cells are held to the invariants that imported files are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gearshift.bench.counters import Counters, Difference
from gearshift.bench.plan import CellPlan
from gearshift.bench.sample import Sample, Usage
from gearshift.bench.soundness import _most_in_flight, _token_moments, checks
from gearshift.bench.trial import Trial
from gearshift.bench.watch import WatchReport

WATCH = WatchReport(1.0, 0.0, 0.1, None, 2)


def answer(started_s: float, *, tokens: int = 40, chunks: int = 10, ended_s: float = 2.0) -> Sample:
    stamps = tuple(0.1 + 0.2 * number for number in range(chunks))
    return Sample(started_s, ended_s, 200, chunk_s=stamps, usage=Usage(10, tokens, 0))


def trial(*samples: Sample, counted: Difference | None = None) -> Trial:
    return Trial(samples, WATCH, counted, None, 0.0)


def test_chunks_of_several_tokens_do_not_put_the_peak_below_the_mean() -> None:
    found = {
        check.name: check.ok
        for check in checks(CellPlan("x", concurrency=2), [trial(answer(0.0), answer(0.1), answer(2.0))])
    }
    assert found["peak_ge_mean"]
    assert found["in_flight_le_concurrency"]
    assert found["little"]
    assert found["client_ttft_ge_server"] is None


def test_acceptance_must_sum_up_in_every_trial() -> None:
    good = Difference(Counters(drafts=10, accepted_tokens=12, accepted_at=(8, 4)))
    bad = Difference(Counters(drafts=10, accepted_tokens=30, accepted_at=(8, 4)))
    for trials in ([good, good], [bad, good], [good, bad]):
        found = {
            check.name: check for check in checks(CellPlan("x"), [trial(answer(0.0), counted=one) for one in trials])
        }
        assert found["acceptance_sums_to_length"].ok is (bad not in trials)


def test_a_request_that_ends_where_another_starts_is_not_beside_it() -> None:
    assert _most_in_flight(trial(answer(0.0), answer(2.0), answer(4.0))) == 1
    assert _most_in_flight(trial(answer(0.0), answer(1.9))) == 2


@given(st.integers(2, 60), st.integers(2, 30))
def test_every_token_gets_a_moment_within_its_answer(tokens: int, chunks: int) -> None:
    sample = answer(1.0, tokens=tokens, chunks=chunks)
    moments = _token_moments(sample)
    assert abs(len(moments) - tokens) <= 1
    assert all(1.0 + sample.chunk_s[0] - 1e-9 <= moment <= 1.0 + sample.chunk_s[-1] + 1e-9 for moment in moments)
