"""What a cell says against itself, from made-up trials."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gearshift.bench.counters import Counters, Difference
from gearshift.bench.plan import CellPlan
from gearshift.bench.sample import Sample, Usage
from gearshift.bench.trial import Trial
from gearshift.bench.validity import Flag, judge
from gearshift.bench.watch import WatchReport

PLAN = CellPlan("x", depth=100, output=11, requests=2, trials=2)
QUIET = WatchReport(wall_s=2.0, loop_lag_s=0.0005, cpu=0.05, foreign_cpu=0.01, cores=8)


def sample(tpot_s: float = 0.01, *, prompt: int = 104, cached: int = 0, tokens: int = 11) -> Sample:
    stamps = tuple(0.1 + tpot_s * number for number in range(tokens))
    return Sample(0.0, 0.3, 200, chunk_s=stamps, usage=Usage(prompt, tokens, cached))


def trial(*samples: Sample, watch: WatchReport = QUIET, counted: Difference | None = None) -> Trial:
    return Trial(samples or (sample(), sample()), watch, counted, None, begun=0.0)


def names(flags: tuple[Flag, ...]) -> list[str]:
    return [flag.name for flag in flags]


def test_a_quiet_cell_has_nothing_against_it() -> None:
    assert judge(PLAN, [trial(), trial()]) == ()


@pytest.mark.parametrize(
    ("watch", "flag"),
    [
        (replace(QUIET, loop_lag_s=0.003), "client_overloaded"),  # 3 % of a decode of 100 ms
        (replace(QUIET, cpu=0.9), "client_overloaded"),
        (replace(QUIET, foreign_cpu=0.5), "busy_cores"),
    ],
)
def test_a_strained_client_or_box_is_named(watch: WatchReport, flag: str) -> None:
    assert names(judge(PLAN, [trial(), trial(watch=watch)])) == [flag]


def test_a_late_loop_that_a_long_decode_does_not_feel_still_blurs_a_short_ttft() -> None:
    long = sample(0.01, tokens=1001)
    watch = replace(QUIET, loop_lag_s=0.01)
    flags = judge(replace(PLAN, output=1001), [trial(long, watch=watch), trial(long, watch=watch)])
    assert names(flags) == ["ttft_uncertain"]


@pytest.mark.parametrize(("due_s", "named"), [(0.5, ["no_steady_state"]), (0.7, [])])
def test_an_open_loop_must_go_on_longer_than_its_answers_take(due_s: float, named: list[str]) -> None:
    """An answer takes 0.2 s to its last token."""
    samples = [replace(sample(), planned_s=0.0), replace(sample(), planned_s=due_s, started_s=due_s)]
    flags = judge(replace(PLAN, rate=2.0), [trial(*samples), trial(*samples)])
    assert names(flags) == named


def test_trials_that_were_run_again_are_counted() -> None:
    (flag,) = judge(PLAN, [replace(trial(), attempts=3), trial()])
    assert flag.name == "trials_run_again"
    assert flag.detail.startswith("2 more trials were thrown away")
    assert not flag.invalidates


def test_a_first_trial_unlike_the_others_is_named_with_its_figures() -> None:
    trials = [trial(sample(0.013)), *(trial(sample(0.01)) for _ in range(3))]
    (flag,) = judge(replace(PLAN, trials=4), trials)
    assert flag.name == "first_trial_odd"
    assert "13.00 ms" in flag.detail


def test_a_drift_is_named_with_its_likely_cause() -> None:
    heat = [trial(sample(0.01 + 0.0002 * number)) for number in range(6)]
    company = [
        trial(sample(0.01 + 0.0002 * number), watch=replace(QUIET, foreign_cpu=0.1 * number)) for number in range(6)
    ]
    assert "heat" in judge(PLAN, heat)[0].detail
    assert "cores changed" in next(flag.detail for flag in judge(PLAN, company) if flag.name == "drift")


def test_a_restart_in_between_makes_every_difference_meaningless() -> None:
    gone = Difference(Counters(generated_tokens=-5), reset=True)
    flags = judge(PLAN, [trial(counted=gone), trial()])
    assert names(flags) == ["server_restarted"]
    assert flags[0].invalidates


@pytest.mark.parametrize(
    "ours",
    [
        replace(sample(), usage=None),  # the server does not say how many
        replace(sample(), error="no end within 60 s"),
    ],
)
def test_tokens_of_ours_that_nobody_counted_are_not_somebody_elses(ours: Sample) -> None:
    counted = Difference(Counters(generated_tokens=110))  # llama-server, which does not count requests
    flags = judge(PLAN, [trial(*[sample()] * 9, ours, counted=counted)])
    assert "foreign_requests" not in names(flags)


def test_tokens_beyond_ours_are_somebody_elses() -> None:
    counted = Difference(Counters(generated_tokens=44))
    assert "foreign_requests" in names(judge(PLAN, [trial(counted=counted)]))


def test_tokens_that_do_not_reconcile_are_flagged() -> None:
    counted = Difference(Counters(generated_tokens=15, requests=2))
    assert "tokens_do_not_reconcile" in names(judge(PLAN, [trial(counted=counted), trial(counted=counted)]))


def test_a_usage_below_the_chunks_that_came_is_no_count() -> None:
    stated = replace(sample(tokens=11), usage=Usage(104, 5))
    (flag,) = (flag for flag in judge(PLAN, [trial(stated, stated)]) if flag.name == "tokens_do_not_reconcile")
    assert flag.detail == "usage 10, but 22 chunks came, each with a token or more"
    assert flag.invalidates


def test_a_counter_with_six_digits_is_not_held_to_more() -> None:
    rounded = Difference(Counters(generated_tokens=0, evaluated_tokens=0, cached_tokens=0), resolution=1000)
    assert names(judge(PLAN, [trial(counted=rounded), trial(counted=rounded)])) == []


@pytest.mark.parametrize(
    "counters",
    [
        Counters(generated_tokens=11, requests=1, prompt_tokens=104),
        Counters(generated_tokens=11, evaluated_tokens=100, cached_tokens=4),
    ],
)
def test_counters_that_began_anew_and_grew_past_where_they_were_are_a_restart(counters: Counters) -> None:
    (flag,) = judge(PLAN, [trial(counted=Difference(counters))] * 2)
    assert flag.name == "server_restarted"
    assert flag.detail.endswith("its counters began anew, or another server answers")


@pytest.mark.parametrize("counted", [30, 31])  # whether it counts the request that failed
def test_what_a_server_counts_of_our_failed_requests_is_not_foreign(counted: int) -> None:
    failed = Sample(0.0, 0.1, 200, error="the stream ended without its end mark", chunk_s=(0.1,))
    difference = Difference(Counters(generated_tokens=335, requests=counted, prompt_tokens=31 * 104))
    flags = judge(PLAN, [trial(*[sample()] * 30, failed, counted=difference)] * 2)
    assert names(flags) == ["some_requests_failed"]
    one_more = replace(difference, counters=replace(difference.counters, requests=32))
    assert "foreign_requests" in names(judge(PLAN, [trial(*[sample()] * 30, failed, counted=one_more)] * 2))


def test_a_client_that_saw_a_token_before_the_server_sent_it_is_flagged() -> None:
    counted = Difference(Counters(generated_tokens=22, requests=2, ttft_sum_s=0.4, ttft_count=2))
    assert names(judge(PLAN, [trial(counted=counted), trial(counted=counted)])) == ["ttft_below_server"]


def test_preemptions_say_that_the_pool_was_too_small() -> None:
    counted = Difference(Counters(generated_tokens=22, requests=2, preemptions=3))
    assert names(judge(PLAN, [trial(counted=counted), trial(counted=counted)])) == ["preempted"]


def test_prompts_and_answers_of_another_length_are_flagged() -> None:
    flags = judge(PLAN, [trial(sample(prompt=400, tokens=5)), trial(sample(prompt=400, tokens=5))])
    assert names(flags) == ["prompt_length_off", "answers_short"]


@pytest.mark.parametrize(
    ("fitted", "off"), [(100.0, False), (103.0, False), (22.0, True), (140.0, True), (None, False)]
)
def test_a_prompt_that_could_not_be_made_is_not_excused_by_the_templates_room(
    fitted: float | None, *, off: bool
) -> None:
    flags = judge(replace(PLAN, depth=100), [replace(trial(), fitted=fitted)] * 2)
    assert names(flags) == (["prompt_length_off"] if off else [])


def test_a_server_that_says_nothing_of_its_cache_is_not_trusted_to_be_cold() -> None:
    silent = replace(sample(), usage=Usage(104, 11, None))
    assert names(judge(PLAN, [trial(silent), trial(silent)])) == ["cache_unknown"]


def test_some_failures_flag_and_many_invalidate() -> None:
    failed = Sample(0.0, 0.1, 500, error="HTTP 500: out of memory")
    few = judge(PLAN, [trial(*[sample()] * 30, failed), trial(*[sample()] * 30)])
    many = judge(PLAN, [trial(sample(), failed), trial()])
    assert names(few) == ["some_requests_failed"]
    assert names(many) == ["requests_failed"]
    assert "out of memory" in many[0].detail
