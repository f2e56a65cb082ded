"""Judges a cell: what in it makes its figures worth less, and what makes them worth nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gearshift.bench import causes
from gearshift.bench.accounts import isolation, reconciliation, server_first, uncounted
from gearshift.bench.cached import cache_hit_share
from gearshift.bench.plan import CellPlan
from gearshift.bench.sample import Sample
from gearshift.bench.trial import Trial
from gearshift.stats import first_is_odd, median, outliers, trend

_FAILED_SHARE = 0.05
_COLD_SHARE = 0.02  # prompt tokens from cache that a cold cell may have beyond the chat template
_WARM_SHARE = 0.5
_TEMPLATE_TOKENS = 64  # a chat template's fixed head may be cached in any cell: at most so many tokens a request
_LENGTH_SHARE = 0.02
_FIT_TOKENS = 2  # what fitting may miss: words at a cut join into other tokens
_OWN_LAG_SHARE = 0.05  # of a whole answer: a client that is later than that may have gathered its events itself
_STEADY = 3.0  # times that an answer takes, for which an open loop must go on at least
_SIGNIFICANT, _DRIFT = 0.05, 0.02

INVALIDATING = frozenset({
    "nothing_succeeded",
    "requests_failed",
    "server_restarted",
    "foreign_requests",
    "cache_was_warm",
    "cache_was_cold",
    "client_overloaded",
    "not_streamed",
    "tokens_do_not_reconcile",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Limits:
    """What the client may suffer before its stamps are worth less than they claim.

    Lateness moves each stamp by at most itself: it spoils a TPOT by its share of the whole decode, and a TTFT by its
    share of that.
    """

    decode_share: float = 0.02
    ttft_share: float = 0.02
    ttft_floor_s: float = 0.002
    cpu: float = 0.85  # of a core
    foreign_cores: float = 0.25


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Flag:
    """One finding: a stable name, and the figures behind it in a sentence."""

    name: str
    detail: str

    @property
    def invalidates(self) -> bool:
        return self.name in INVALIDATING


def judge(plan: CellPlan, trials: Sequence[Trial], limits: Limits = DEFAULT_LIMITS) -> tuple[Flag, ...]:
    """Every finding about the cell, the grave ones first."""
    found = [
        *_requests(trials),
        *_server(plan, trials),
        *_client(trials, limits),
        *_gpus(trials),
        *_repeats(trials, limits),
        *_lengths(plan, trials),
        *_arrivals(plan, trials),
    ]
    return tuple(sorted(found, key=lambda flag: not flag.invalidates))


def _requests(trials: Sequence[Trial]) -> Iterator[Flag]:
    samples = [sample for trial in trials for sample in trial.samples]
    failed = [sample.error or "no token" for sample in samples if not sample.ok]
    if len(failed) == len(samples):
        yield Flag("nothing_succeeded", f"all {len(samples)} requests failed: {failed[0] if failed else 'none sent'}")
    elif len(failed) > _FAILED_SHARE * len(samples):
        yield Flag("requests_failed", f"{len(failed)} of {len(samples)} requests failed: {failed[0]}")
    elif failed:
        yield Flag("some_requests_failed", f"{len(failed)} of {len(samples)} requests failed: {failed[0]}")
    yield from _streams(trials)


def _streams(trials: Sequence[Trial]) -> Iterator[Flag]:
    good = [sample for trial in trials for sample in trial.good]
    held = [sample for sample in good if _held_back(sample, _lag_s(trials))]
    if 2 * len(held) > len(good):
        events, pieces = len(held[0].chunk_s), len(set(held[0].chunk_s))
        yield Flag(
            "not_streamed",
            f"{len(held)} of {len(good)} answers were held back: one came as {_count(events, 'event')} in "
            f"{_count(pieces, 'piece')}, so its first token and its time per token are not the engine's",
        )


def _server(plan: CellPlan, trials: Sequence[Trial]) -> Iterator[Flag]:
    if any(trial.counted is not None and trial.counted.reset for trial in trials):
        yield Flag("server_restarted", "the server's counters fell during the cell")
        return
    if lost := uncounted(trials):
        yield Flag("server_restarted", f"{lost}: its counters began anew, or another server answers")
        return
    for check in (isolation(trials), reconciliation(trials), server_first(trials)):
        if check.ok is False:
            yield Flag(_FLAG_OF_CHECK[check.name], check.detail)
    yield from _cache(plan, trials)
    if trials and all(trial.silent_speculation for trial in trials):
        yield Flag("silent_speculation", "a drafter is configured, but nothing was drafted")
    preempted = sum(trial.counted.counters.preemptions or 0 for trial in trials if trial.counted is not None)
    if preempted:
        yield Flag("preempted", f"{preempted:g} preemptions: the KV pool was too small for this load")


_FLAG_OF_CHECK = {
    "requests_are_ours": "foreign_requests",
    "tokens_reconcile": "tokens_do_not_reconcile",
    "client_ttft_ge_server": "ttft_below_server",
}


def _cache(plan: CellPlan, trials: Sequence[Trial]) -> Iterator[Flag]:
    share = cache_hit_share(trials)
    if share is None:
        yield Flag("cache_unknown", "the server does not say how much of the prompts came from its cache")
    elif plan.cache == "cold" and share > _COLD_SHARE + _TEMPLATE_TOKENS / _whole_prompt(plan, trials):
        yield Flag("cache_was_warm", f"{share:.0%} of the prompt tokens came from cache in a cell meant to be cold")
    elif plan.cache == "warm" and share < _WARM_SHARE:
        yield Flag(
            "cache_was_cold", f"only {share:.0%} of the prompt tokens came from cache in a cell meant to be warm"
        )


def _whole_prompt(plan: CellPlan, trials: Sequence[Trial]) -> float:
    """Tokens of a prompt with its template; those of a file are as long as they are."""
    meant = plan.depth + _TEMPLATE_TOKENS
    if plan.kind != "file":
        return meant
    return max(_TEMPLATE_TOKENS, prompt_tokens(trials) or meant)


def prompt_tokens(trials: Sequence[Trial]) -> float | None:
    """The median prompt as the server counts it, template included; None where it does not."""
    counts = [sample.prompt for trial in trials for sample in trial.good if sample.prompt is not None]
    return median(counts) if counts else None


def overloaded(trials: Sequence[Trial], limits: Limits) -> bool:
    """Whether this client was too late or too busy in one of these for what it claims."""
    lag, decodes = _lag_s(trials), _decodes_s(trials)
    cpu = max((trial.watch.cpu for trial in trials), default=0.0)
    return cpu > limits.cpu or bool(decodes and lag > limits.decode_share * median(decodes))


def _lag_s(trials: Sequence[Trial]) -> float:
    return max((trial.watch.loop_lag_s for trial in trials), default=0.0)


def _decodes_s(trials: Sequence[Trial]) -> list[float]:
    """How long each answer took from its first token to its last; one that was held back does not tell."""
    timed = [sample for trial in trials for sample in trial.good if sample.tpot_s is not None]
    lag = _lag_s(trials)
    return [sample.chunk_s[-1] - sample.chunk_s[0] for sample in timed if not _held_back(sample, lag)]


def _held_back(sample: Sample, lag_s: float) -> bool:
    """Whether it came in fewer pieces than it was made in, and not because this client looked too seldom.

    A single event was made by the server, however late the client.
    """
    early = lag_s <= _OWN_LAG_SHARE * (sample.e2e_s or 0.0)
    return sample.held_back and (early or len(sample.chunk_s) == 1)


def _client(trials: Sequence[Trial], limits: Limits) -> Iterator[Flag]:
    lag, decodes = _lag_s(trials), _decodes_s(trials)
    ttfts = [sample.ttft_s for trial in trials for sample in trial.good if sample.ttft_s is not None]
    if overloaded(trials, limits):
        cpu = max(trial.watch.cpu for trial in trials)
        over = f" in a decode of {_ms(median(decodes))}" if decodes else ""
        yield Flag("client_overloaded", f"loop lag {lag * 1e3:.1f} ms{over}, CPU {cpu:.0%} of a core")
    elif ttfts and lag > limits.ttft_floor_s + limits.ttft_share * median(ttfts):
        yield Flag("ttft_uncertain", f"loop lag {lag * 1e3:.1f} ms in a TTFT of {_ms(median(ttfts))}")
    if thrown := sum(trial.attempts - 1 for trial in trials):
        yield Flag("trials_run_again", f"{thrown} more trials were thrown away, since this client was late in them")
    foreign = [trial.watch.foreign_cpu for trial in trials if trial.watch.foreign_cpu is not None]
    if foreign and max(foreign) > limits.foreign_cores:
        yield Flag("busy_cores", f"other programs used {max(foreign):.2f} cores")


def _gpus(trials: Sequence[Trial]) -> Iterator[Flag]:
    reasons = sorted({reason for trial in trials for gpu in trial.gpus for reason in gpu.throttle})
    if reasons:
        yield Flag("gpu_throttled", f"the GPU was slowed down: {', '.join(reasons)}")


def _repeats(trials: Sequence[Trial], limits: Limits) -> Iterator[Flag]:
    if len(trials) == 1:
        yield Flag("single_run", "one trial: an operating point, no interval")
    timed = [trial for trial in trials if _tpots(trial)]
    medians = [median(_tpots(trial)) for trial in timed]

    def why(index: int) -> str:
        return causes.of_outlier(timed, index, foreign_cores=limits.foreign_cores)

    if first_is_odd(medians):
        rest = _ms(median(medians[1:]))
        yield Flag("first_trial_odd", f"TPOT {_ms(medians[0])} in the first trial, {rest} after it: {why(0)}")
    if odd := outliers(medians):
        told = "; ".join(f"trial {index + 1}: TPOT {_ms(medians[index])}, {why(index)}" for index in odd)
        yield Flag("outlier_trial", f"median {_ms(median(medians))}; {told}")
    moved = trend(medians)
    if moved is not None and moved.p < _SIGNIFICANT and abs(moved.change) > _DRIFT:
        cause = causes.of_drift(timed, foreign_cores=limits.foreign_cores)
        yield Flag("drift", f"TPOT moved {moved.change:+.1%} from the first trial to the last: {cause}")


def _lengths(plan: CellPlan, trials: Sequence[Trial]) -> Iterator[Flag]:
    good = [sample for trial in trials for sample in trial.good]
    if plan.kind != "file" and (had := _other_length(plan.depth, trials)) is not None:
        yield Flag("prompt_length_off", f"prompts had {had:g} tokens, {plan.depth} were meant")
    written = [sample.tokens for sample in good if sample.tokens is not None]
    if len(written) < len(good):
        yield Flag("tokens_unknown", "the server does not count its tokens: no TPOT")
    elif plan.exact and written and median(written) < plan.output:
        yield Flag("answers_short", f"answers had {median(written):g} tokens, {plan.output} were meant")
    if refused := sorted({key for trial in trials for key in trial.refused}):
        yield Flag("keys_refused", f"asked without {' and '.join(refused)}, which the server refuses")


def _arrivals(plan: CellPlan, trials: Sequence[Trial]) -> Iterator[Flag]:
    """An open loop shows what a rate does only once answers end as fast as they begin."""
    lasting = [sample.e2e_s for trial in trials for sample in trial.good if sample.e2e_s is not None]
    due = [sample.planned_s for trial in trials for sample in trial.samples if sample.planned_s is not None]
    if plan.rate is not None and lasting and due and max(due) < _STEADY * median(lasting):
        detail = f"requests came for {max(due):.3g} s, and an answer took {median(lasting):.3g} s"
        yield Flag("no_steady_state", f"{detail}: more requests would tell more")


def _other_length(meant: int, trials: Sequence[Trial]) -> float | None:
    """The length of prompts that are not as long as ``meant``: without their template where that is known."""
    room = meant * _LENGTH_SHARE
    fitted = [trial.fitted for trial in trials if trial.fitted is not None]
    if fitted and abs(median(fitted) - meant) > room + _FIT_TOKENS:
        return median(fitted)
    had = prompt_tokens(trials)
    return None if had is None or meant - 1 <= had <= meant + room + _TEMPLATE_TOKENS else had


def _tpots(trial: Trial) -> list[float]:
    return [sample.tpot_s for sample in trial.good if sample.tpot_s is not None]


def _count(number: int, name: str) -> str:
    return f"{number} {name}{'s' if number != 1 else ''}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms"
