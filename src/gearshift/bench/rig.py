"""One server set up for measuring: connection, identity, prompts, and what the warm-up taught."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from gearshift.bench.bodies import Ask
from gearshift.bench.budget import Pace
from gearshift.bench.cell import CellResult, NeedleScore, result_of
from gearshift.bench.client import REFUSALS, Client, TargetError
from gearshift.bench.load import closed_loop, poisson_schedule
from gearshift.bench.plan import CellPlan
from gearshift.bench.retries import Retries
from gearshift.bench.sample import Call, Sample
from gearshift.bench.target import Target, identify
from gearshift.bench.trial import Load, Trial, run_trial
from gearshift.bench.validity import DEFAULT_LIMITS, Limits, overloaded
from gearshift.bench.workload.needle import Needle, needles
from gearshift.bench.workload.prompts import Prompt, PromptMaker
from gearshift.bench.workload.source import PromptSource, open_prompt_source
from gearshift.bench.workload.tokenizer import ServerTokenizer
from gearshift.domain.telemetry import Telemetry

_WARMUP_OUTPUT = 16  # tokens: enough for every kernel of a decode step at the cell's batch size
_MOST_SPREAD_S = 1.0
_REFUSALS = {400, 422}  # of a request as such: FastAPI's word for an unknown key is the second
_OPTIONAL = ("ignore_eos", "stream_options")  # keys that OpenAI's own API or another server may not take
_PROBE_DEPTH, _PROBE_OUTPUT = 1024, 32  # tokens


@dataclass(frozen=True, slots=True)
class Prepared:
    """A cell whose warm-up is done: how its requests are asked and spread."""

    plan: CellPlan
    ask: Ask
    refused: tuple[str, ...]  # keys that the server does not take
    spread_s: float  # starts are spread over one time to first token; 0 = a burst


class Rig:
    """Measures cells on one server. Use as an async context manager.

    A fitted text serves all cells of its length; every trial's prompts are new by their nonce. ``control_url`` is where
    the engine's own pages are when a gateway stands before it. ``telemetry`` is for a server on this box only.
    """

    def __init__(
        self, url: str, *, model: str | None = None, key: str | None = None, control_url: str | None = None,
        provenance: Mapping[str, object] | None = None, limits: Limits = DEFAULT_LIMITS,
        telemetry: Telemetry | None = None,
    ) -> None:  # fmt: skip
        self._client = Client(url, key=key, control_url=control_url)
        self._telemetry = telemetry
        self.limits = limits
        self._model = model
        self._provenance = provenance
        self._stack = AsyncExitStack()
        self._target: Target | None = None
        self._refused: tuple[str, ...] = ()  # of `_OPTIONAL`, what this server does not take
        self._sources: dict[tuple[str, str, str | None], PromptSource] = {}

    def under(self, lease: str | None) -> Self:
        """This rig, not entered yet, with every call made under an operator's lease on the variant (None: without)."""
        self._client.lease = lease
        return self

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(self._client)
            self._target = await identify(client, self._model, provenance=self._provenance)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @property
    def target(self) -> Target:
        if self._target is None:
            msg = "the rig is used outside its context"
            raise RuntimeError(msg)
        return self._target

    async def cell(self, plan: CellPlan) -> CellResult:
        """Warm up, run the plan's trials, judge.

        Raises:
            TargetError: the server is gone, or refuses the cell's first request.
        """
        prepared = await self.prepare(plan)
        return self.result(prepared, await self.trials(prepared))

    async def pace(self) -> Pace:
        """How fast one stream is, by one short request after a warm-up: what a time budget is planned with.

        Raises:
            TargetError: the request failed, or the server counts no tokens.
        """
        depth = min(_PROBE_DEPTH, (self.target.context or 2 * _PROBE_DEPTH) // 2)
        found = await self.cell(CellPlan("probe", depth=depth, output=_PROBE_OUTPUT, requests=1, trials=1))
        if found.prefill_tok_s is None or found.decode_tok_s is None:
            msg = (
                f"the pace of {self.target.url} cannot be told: {found.flags[0].detail if found.flags else 'no tokens'}"
            )
            raise TargetError(msg, hint="leave the time budget out")
        return Pace(found.prefill_tok_s.median, found.decode_tok_s.median)

    async def prepare(self, plan: CellPlan) -> Prepared:
        """The warm-up: as many streams as the cell has, a few tokens each, discarded.

        It reaches the cell's batch size, because kernels are compiled on first use at a size, and primes the prefix of
        a cell that is meant to be cached. A server that refuses ``ignore_eos`` or ``stream_options`` is asked without
        from then on.

        Raises:
            TargetError: no warm-up request succeeded.
        """
        ask, samples = await self._asked(plan)
        good = [sample for sample in samples if sample.ok]
        if not good:
            msg = f"{self.target.url} refuses {ask.model}: {samples[0].error or 'an answer without a token'}"
            raise TargetError(msg, hint=_hint(samples[0]))
        self._learn(plan, good[0])
        ttft = min(sample.ttft_s or 0.0 for sample in good)
        refused = tuple(key for key in _OPTIONAL if key in self._refused and _wants(plan, key))
        plan = replace(plan, exact=ask.exact)
        return Prepared(plan, ask, refused, 0.0 if plan.burst else min(ttft, _MOST_SPREAD_S))

    async def _asked(self, plan: CellPlan) -> tuple[Ask, tuple[Sample, ...]]:
        """The warm-up, without keys that this server turns out to refuse: the first choice of them that it takes."""
        tried = []
        for left_out in _choices(plan, self._refused):
            ask = Ask(
                plan.model or self.target.model, plan.output, plan.dialect,
                exact=plan.exact and "ignore_eos" not in left_out,
                usage="stream_options" not in left_out, extra=plan.extra,
            )  # fmt: skip
            tried.append((ask, await self._warm_up(plan, ask)))
            if any(sample.status not in _REFUSALS for sample in tried[-1][1]):
                self._refused = tuple(key for key in _OPTIONAL if key in {*self._refused, *left_out})
                return tried[-1]
        return tried[0]

    async def trial(self, prepared: Prepared, number: int, *, boot: int = 0) -> Trial:
        """The ``number``-th repeat of a prepared cell."""
        plan = prepared.plan
        calls = await self._calls(plan, prepared.ask, plan.requests, number)
        schedule = poisson_schedule(plan.rate, len(calls), seed=plan.seed + number) if plan.rate else None
        load = Load(plan.concurrency, prepared.spread_s, schedule)
        telemetry = self._telemetry if self.target.local else None
        trial = await run_trial(self._client, self.target, calls, load, boot=boot, telemetry=telemetry)
        return replace(trial, refused=prepared.refused)

    async def trials(self, prepared: Prepared, *, boot: int = 0) -> list[Trial]:
        """Every repeat of a prepared cell; a few in which this client was late are run again."""
        found: list[Trial] = []
        retries = Retries(prepared.plan.trials)
        while len(found) < prepared.plan.trials:
            trial = await self.trial(prepared, len(found), boot=boot)
            if not retries.again(late=self.late(trial)):
                found.append(replace(trial, attempts=retries.kept()))
        return found

    def late(self, trial: Trial) -> bool:
        """Whether this client was too late in the trial for what it claims."""
        return overloaded([trial], self.limits)

    def result(self, prepared: Prepared, trials: list[Trial]) -> CellResult:
        """Judge the trials of a prepared cell."""
        return result_of(prepared.plan, trials, needle=_score(prepared.plan, trials), limits=self.limits)

    async def _warm_up(self, plan: CellPlan, ask: Ask) -> tuple[Sample, ...]:
        short = replace(ask, output=min(ask.output, _WARMUP_OUTPUT))
        calls = await self._calls(plan, short, min(plan.concurrency, plan.requests), -1)
        return await closed_loop(self._client, calls, concurrency=plan.concurrency)

    async def _calls(self, plan: CellPlan, ask: Ask, count: int, number: int) -> list[Call]:
        source = self._source(plan)
        hidden = _needles(plan)
        calls = []
        for index in range(count):
            needle = hidden[index % len(hidden)] if hidden else None
            prompt = await _prompt(source, plan, needle, window=(max(number, 0) * count + index) % 8)
            label = needle.code if needle else ""
            fitted = prompt.tokens if prompt.exact else None
            calls.append(ask.call(prompt.ids or prompt.text, prompt_tokens=fitted, label=label))
        return calls

    def _source(self, plan: CellPlan) -> PromptSource:
        """One source a model and kind, so that fitted texts are shared between cells."""
        model = plan.model or self.target.model
        key = (model, plan.kind, plan.file)
        if key not in self._sources:
            self._sources[key] = open_prompt_source(ServerTokenizer(self._client, model), plan.kind, plan.file)
        return self._sources[key]

    def _learn(self, plan: CellPlan, sample: Sample) -> None:
        source = self._source(plan)
        if isinstance(source, PromptMaker) and sample.usage is not None:
            source.correct(plan.depth, sample.usage.prompt)


def _choices(plan: CellPlan, refused: tuple[str, ...]) -> list[tuple[str, ...]]:
    """What to leave out of a request, in the order to try it: what the server is known to refuse, then more of it."""
    asked = [key for key in _OPTIONAL if _wants(plan, key)]
    every = [(), *((key,) for key in asked), tuple(asked)]
    return list(dict.fromkeys(left_out for left_out in every if set(refused) & set(asked) <= set(left_out)))


def _wants(plan: CellPlan, key: str) -> bool:
    return plan.exact if key == "ignore_eos" else plan.dialect != "responses"


def _hint(sample: Sample) -> str:
    """What to do about a server's first refusal."""
    return REFUSALS.get(sample.status or 0, "check the model's name and that the prompt fits its context")


async def _prompt(source: PromptSource, plan: CellPlan, needle: Needle | None, *, window: int) -> Prompt:
    """One prompt of the plan: unlike any other from its first word, or alike up to the end of the shared prefix."""
    if not plan.shared_prefix:
        return await source.make(plan.depth, window=window, needle=needle)
    head = await source.make(plan.shared_prefix, nonce=plan.cache == "cold")
    tail = await source.make(plan.depth - plan.shared_prefix, window=window)
    return Prompt(f"{head.text}\n\n{tail.text}", head.tokens + tail.tokens, exact=head.exact and tail.exact)


def _needles(plan: CellPlan) -> tuple[Needle, ...]:
    return needles(plan.needles, seed=plan.seed + plan.depth)


def _score(plan: CellPlan, trials: list[Trial]) -> NeedleScore | None:
    hidden = _needles(plan)
    if not hidden:
        return None
    answers = [
        (hidden[index % len(hidden)], f"{sample.thought} {sample.text}")
        for trial in trials
        for index, sample in enumerate(trial.samples)
        if sample.ok
    ]
    return NeedleScore(len(answers), sum(needle.found_in(text) for needle, text in answers))
