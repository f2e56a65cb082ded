"""Results to store records and back: every figure can be derived again from what is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from gearshift.bench.cell import CellResult, NeedleScore
from gearshift.bench.counters import Counters, Difference
from gearshift.bench.gpus import GpuReport
from gearshift.bench.plan import CellPlan
from gearshift.bench.sample import EngineTimings, Sample, Usage
from gearshift.bench.target import Target
from gearshift.bench.trial import Trial
from gearshift.bench.validity import DEFAULT_LIMITS, Limits, judge
from gearshift.bench.watch import WatchReport
from gearshift.store import CellRecord, SampleRecord, TrialRecord

_IDENTITY = ("url", "model", "engine", "engine_version", "context", "provenance")


def identity(target: Target) -> dict[str, object]:
    """What of a target makes a measurement the same measurement: part of a cell's content address.

    A Gearshift gives an engine another port at each start, so a variant's identity is its provenance: what it is, not
    what its last start came to (``memory``, which an engine that fills a GPU finds anew each time).
    """
    known = target.to_json()
    if "variant" in target.provenance:
        del known["url"]
        known["provenance"] = {name: told for name, told in target.provenance.items() if name != "memory"}
    return {name: known[name] for name in _IDENTITY if name in known}


def to_record(result: CellResult, target: Target) -> CellRecord:
    """The cell as the store keeps it."""
    plan = result.plan
    return CellRecord(
        key=plan.key(identity(target)),
        setting=plan.setting,
        concurrency=plan.concurrency,
        depth=result.depth,
        valid=result.valid,
        plan=asdict(plan),
        figures=result.to_json(),
        trials=tuple(_trial_record(trial) for trial in result.trials),
    )


def from_record(record: CellRecord, trials: tuple[TrialRecord, ...], limits: Limits = DEFAULT_LIMITS) -> CellResult:
    """The cell again, judged anew from its raw samples; a needle's score is taken as stored (answers are not kept)."""
    plan = _plan(record.plan)
    kept = tuple(_trial(trial) for trial in trials)
    needle = record.figures.get("needle")
    score = NeedleScore(needle["asked"], needle["found"]) if needle else None
    return CellResult(plan, kept, judge(plan, kept, limits), score)


def _plan(stored: Mapping[str, Any]) -> CellPlan:
    known = {field.name for field in fields(CellPlan)}
    values = {name: value for name, value in stored.items() if name in known}
    return CellPlan(**values | {"needles": tuple(stored.get("needles", ()))})


def _trial_record(trial: Trial) -> TrialRecord:
    counted = None if trial.counted is None else asdict(trial.counted)
    return TrialRecord(
        boot=trial.boot,
        begun=trial.begun,
        counters=None if counted is None else {**counted, "silent": trial.silent_speculation},
        watch={
            **asdict(trial.watch),
            "kv_use": trial.kv_use,
            "gpus": [asdict(gpu) for gpu in trial.gpus],
            "attempts": trial.attempts,
            "fitted": trial.fitted,
            "refused": list(trial.refused),
        },
        samples=tuple(_sample_record(sample) for sample in trial.samples),
    )


def _trial(record: TrialRecord) -> Trial:
    watch = dict(record.watch)
    kv_use, gpus, attempts = watch.pop("kv_use", None), watch.pop("gpus", ()), watch.pop("attempts", 1)
    fitted, refused = watch.pop("fitted", None), watch.pop("refused", ())
    return Trial(
        samples=tuple(_sample(sample) for sample in record.samples),
        watch=WatchReport(**watch),
        counted=None if record.counters is None else _difference(record.counters),
        kv_use=kv_use,
        begun=record.begun,
        boot=record.boot,
        silent_speculation=bool(record.counters and record.counters["silent"]),
        gpus=tuple(GpuReport.from_json(gpu) for gpu in gpus),
        attempts=attempts,
        fitted=fitted,
        refused=tuple(refused),
    )


def _difference(stored: Mapping[str, Any]) -> Difference:
    counters = dict(stored["counters"])
    counters["accepted_at"] = tuple(counters["accepted_at"])
    return Difference(Counters(**counters), reset=stored["reset"], resolution=stored["resolution"])


def _sample_record(sample: Sample) -> SampleRecord:
    usage = sample.usage
    return SampleRecord(
        started_s=sample.started_s,
        ended_s=sample.ended_s,
        chunk_s=sample.chunk_s,
        planned_s=sample.planned_s,
        status=sample.status,
        error=sample.error,
        headers_s=sample.headers_s,
        first_answer_s=sample.first_answer_s,
        prompt_tokens=usage.prompt if usage else None,
        completion_tokens=usage.completion if usage else None,
        cached_tokens=usage.cached if usage else None,
        reasoning_tokens=usage.reasoning if usage else None,
        token_ids=sample.token_ids,
        engine=asdict(sample.timings) if sample.timings else None,
    )


def _sample(record: SampleRecord) -> Sample:
    usage = None
    if record.prompt_tokens is not None and record.completion_tokens is not None:
        usage = Usage(record.prompt_tokens, record.completion_tokens, record.cached_tokens, record.reasoning_tokens)
    return Sample(
        started_s=record.started_s,
        ended_s=record.ended_s,
        status=record.status,
        error=record.error,
        planned_s=record.planned_s,
        headers_s=record.headers_s,
        first_answer_s=record.first_answer_s,
        chunk_s=record.chunk_s,
        token_ids=record.token_ids,
        usage=usage,
        timings=EngineTimings(**record.engine) if record.engine else None,
    )
