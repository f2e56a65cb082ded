"""A cell's result: the figures of its trials, and the JSON form that programs read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from gearshift.bench.accounts import token_counts
from gearshift.bench.cached import cache_hit_share, cached_tokens
from gearshift.bench.counters import Acceptance
from gearshift.bench.engine_view import engine_view
from gearshift.bench.plan import CellPlan
from gearshift.bench.sample import Sample
from gearshift.bench.soundness import checks
from gearshift.bench.tail import tail
from gearshift.bench.trial import Trial
from gearshift.bench.validity import DEFAULT_LIMITS, Flag, Limits, judge, prompt_tokens
from gearshift.stats.estimate import Estimate, estimate, estimate_json, estimate_trials


@dataclass(frozen=True, slots=True)
class NeedleScore:
    """How many needles were asked for and found."""

    asked: int
    found: int


@dataclass(frozen=True, slots=True)
class CellResult:
    """One cell, measured. Every figure can be computed again from ``trials``."""

    plan: CellPlan
    trials: tuple[Trial, ...]
    flags: tuple[Flag, ...]
    needle: NeedleScore | None = None

    @property
    def valid(self) -> bool:
        return not any(flag.invalidates for flag in self.flags)

    @property
    def depth(self) -> int | None:
        """Prompt tokens: as planned; of a file's prompts the median as the server counts it, None where it does not."""
        if self.plan.kind != "file":
            return self.plan.depth
        found = prompt_tokens(self.trials)
        return None if found is None else round(found)

    @property
    def ttft_s(self) -> Estimate | None:
        return self.per_request(lambda sample: sample.ttft_s)

    @property
    def tpot_s(self) -> Estimate | None:
        return self.per_request(lambda sample: sample.tpot_s)

    @property
    def decode_tok_s(self) -> Estimate | None:
        """One stream's rate: 1 / TPOT."""
        return _inverse(self.tpot_s)

    @property
    def prefill_tok_s(self) -> Estimate | None:
        """Uncached prompt tokens over TTFT. Only for one stream: beside others, TTFT is mostly waiting."""
        if self.plan.concurrency != 1 or self.plan.rate is not None:
            return None
        cold = self.plan.cache == "cold"
        return self._estimate(lambda sample, trial: _prefill_rate(sample, cached_tokens(sample, trial, cold=cold)))

    @property
    def output_tok_s(self) -> Estimate | None:
        """All generated tokens over the wall time, prefill, ramp and tail included; once a trial."""
        rates = [trial.output_tokens / trial.wall_s for trial in self.trials if trial.output_tokens and trial.wall_s]
        return estimate_trials(rates)

    @property
    def acceptance(self) -> Acceptance | None:
        """Over all trials; None without drafts."""
        counted = [trial.counted.counters for trial in self.trials if trial.counted is not None]
        drafts = sum(counters.drafts or 0 for counters in counted)
        if not drafts:
            return None
        positions = max(len(counters.accepted_at) for counters in counted)
        padded = [[*counters.accepted_at, *[0.0] * (positions - len(counters.accepted_at))] for counters in counted]
        accepted = sum(counters.accepted_tokens or 0 for counters in counted)
        return Acceptance(tuple(sum(column) / drafts for column in zip(*padded, strict=True)), 1 + accepted / drafts)

    @property
    def tokens_per_step(self) -> float | None:
        """Generated tokens over a stream's decode steps, drafted or not; None where the server does not count them.

        Each step gives its own token and the accepted ones, so steps = generated - accepted. An answer's last step may
        accept more than the answer takes, which would put it above the mean length of drafted steps: no more than that.
        """
        counted = [trial.counted.counters for trial in self.trials if trial.counted is not None]
        generated: float = sum(counters.generated_tokens or 0 for counters in counted)
        accepted: float = sum(counters.accepted_tokens or 0 for counters in counted)
        if all(counters.accepted_tokens is None for counters in counted):  # older llama-servers tell it by answer only
            told = self._by_timings()
            generated, accepted = told if told[0] else (generated, accepted)
        if generated <= accepted:
            return None
        found = generated / (generated - accepted)
        return min(found, self.acceptance.mean_length) if self.acceptance else found

    def _by_timings(self) -> tuple[int, int]:
        """Generated and accepted tokens as llama-server states them with each answer; none where one lacks them."""
        timings = [sample.timings for trial in self.trials for sample in trial.good]
        known = [found for found in timings if found is not None]
        if len(known) < len(timings):
            return 0, 0
        return sum(found.tokens for found in known), sum(found.accepted_tokens or 0 for found in known)

    @property
    def preemptions(self) -> float | None:
        """Of all trials; None where the engine has no such counter."""
        counts = [trial.counted.counters.preemptions for trial in self.trials if trial.counted is not None]
        known = [count for count in counts if count is not None]
        return sum(known) if known else None

    @property
    def energy_j_per_token(self) -> float | None:
        """What all GPUs drew over the trials, a generated token; None where they do not say."""
        drawn = [gpu.energy_j for trial in self.trials for gpu in trial.gpus]
        tokens = sum(trial.output_tokens or 0 for trial in self.trials)
        if not drawn or not tokens or None in drawn:
            return None
        return sum(energy for energy in drawn if energy is not None) / tokens

    def per_request(self, figure: Callable[[Sample], float | None]) -> Estimate | None:
        """The estimate of a per-request figure over boot > trial > request."""
        return self._estimate(lambda sample, _: figure(sample))

    def _estimate(self, figure: Callable[[Sample, Trial], float | None]) -> Estimate | None:
        boots: dict[int, list[list[float]]] = {}
        for trial in self.trials:
            values = [value for sample in trial.good if (value := figure(sample, trial)) is not None]
            boots.setdefault(trial.boot, []).append(values)
        return estimate(list(boots.values()))

    def to_json(self) -> dict[str, object]:
        """The cell as the CLI contract has it; seconds, tokens and shares, unrounded, null = unknown."""
        usage, server, ids = token_counts(self.trials)
        kv = [trial.kv_use for trial in self.trials if trial.kv_use is not None]
        return {
            "concurrency": self.plan.concurrency if self.plan.rate is None else None,  # an open loop has no limit
            "depth": self.depth,
            "setting": self.plan.setting,
            "trials": len(self.trials),
            "ttft_s": estimate_json(self.ttft_s),
            "ttfo_s": estimate_json(self.per_request(lambda sample: sample.first_answer_s)),
            "tpot_s": estimate_json(self.tpot_s),
            "decode_tok_s": estimate_json(self.decode_tok_s),
            "prefill_tok_s": estimate_json(self.prefill_tok_s),
            "output_tok_s": estimate_json(self.output_tok_s),
            "acceptance": _acceptance(self.acceptance),
            "tokens_per_step": self.tokens_per_step,
            "cache_hit_share": cache_hit_share(self.trials),
            "kv_use": max(kv, default=None),
            "needle": {"asked": self.needle.asked, "found": self.needle.found} if self.needle else None,
            "tokens": {"usage": usage, "client": ids if ids is not None else self._chunks(), "server": server},
            "chunks": self._chunks(),
            "tail": tail([sample for trial in self.trials for sample in trial.good]),
            "preemptions": self.preemptions,
            "engine": engine_view(self.trials).to_json(),
            "client": self._client(),
            "gpus": [asdict(gpu) for trial in self.trials[-1:] for gpu in trial.gpus] or None,
            "energy_j_per_token": self.energy_j_per_token,
            "invariants": [asdict(check) for check in checks(self.plan, self.trials)],
            "valid": self.valid,
            "flags": [flag.name for flag in self.flags],
            "flag_details": {flag.name: flag.detail for flag in self.flags},
        }

    def _chunks(self) -> int:
        return sum(len(sample.chunk_s) for trial in self.trials for sample in trial.good)

    def _client(self) -> dict[str, object]:
        watches = [trial.watch for trial in self.trials]
        foreign = [watch.foreign_cpu for watch in watches if watch.foreign_cpu is not None]
        return {
            "loop_lag_s": max((watch.loop_lag_s for watch in watches), default=None),
            "cpu": max((watch.cpu for watch in watches), default=None),
            "foreign_cpu": max(foreign, default=None),
        }


def result_of(
    plan: CellPlan, trials: Sequence[Trial], *, needle: NeedleScore | None = None, limits: Limits = DEFAULT_LIMITS
) -> CellResult:
    """The judged result of a cell's trials."""
    return CellResult(plan, tuple(trials), judge(plan, trials, limits), needle)


def _prefill_rate(sample: Sample, cached: float | None) -> float | None:
    if sample.prompt is None or cached is None or not sample.ttft_s:
        return None
    return (sample.prompt - cached) / sample.ttft_s


def _inverse(found: Estimate | None) -> Estimate | None:
    if found is None or not found.median:
        return None
    low = 1 / found.high if found.high else None
    high = 1 / found.low if found.low else None
    return Estimate(1 / found.median, low, high)


def _acceptance(found: Acceptance | None) -> dict[str, object] | None:
    return {"per_position": list(found.per_position), "mean_length": found.mean_length} if found else None
