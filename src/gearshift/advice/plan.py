"""`plan` as a person asks it: does it fit, how long, on one card or two, what frees memory, how fast at best."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gearshift.advice.bandwidths import HOW
from gearshift.advice.measured import Measured
from gearshift.artifacts import ModelFacts
from gearshift.domain.variant import EngineKind
from gearshift.planner import (
    Ceiling,
    Gpu,
    Hardware,
    JsonValue,
    Lever,
    Plan,
    PlanRequest,
    Workload,
    decode_ceiling,
    hardware_of,
    levers,
    longest_context,
    model_longest,
    plan,
    plan_document,
    settled,
    streams_at_once,
    workload_of,
)
from gearshift.planner.vllm_start import undivided

_NO_WEIGHTS, _NO_DRAFT = "the weights are not here", "the draft model is not here"
_NO_SIZE = {"vllm": f"{_NO_WEIGHTS}: --weights-size says how large they are", "llama.cpp": _NO_WEIGHTS}
SHORT_REQUEST = 8192  # tokens; beside the whole context, what most requests are at most


@dataclass(frozen=True, slots=True)
class SpeedQuestion:
    """At which depth (tokens of context) and batch (sequences) to ask for the ceiling.

    ``acceptance`` is accepted over drafts by position; None = not known. ``measured`` is held against the ceiling at
    its own depth and batch.
    """

    gpu: Gpu | None = None
    depth: int = 0
    batch: int = 1
    acceptance: tuple[float, ...] | None = None
    measured: Measured | None = None


@dataclass(frozen=True, slots=True)
class Speed:
    """The ceiling of one decode step, and how much of it a measurement reaches.

    Without an ``acceptance`` a step with drafts has a time but no rate: only its bounds are known.
    """

    question: SpeedQuestion
    bound: Ceiling
    drafted: int
    measured_share: float | None = None  # None without a measurement, or without a rate to hold it against

    @property
    def acceptance_known(self) -> bool:
        return self.drafted == 0 or self.question.acceptance is not None

    @property
    def range_tok_s(self) -> tuple[float, float]:
        """tok/s when no draft is accepted, and when all are."""
        least = self.question.batch / self.bound.step_s
        return least, least * (1 + self.drafted)


@dataclass(frozen=True, slots=True)
class Room:
    """What one number of equal cards holds. ``at_once``: request length to how many run together, None = unknown."""

    cards: int
    fits: bool | None
    longest_context: int | None
    at_once: tuple[tuple[int, int | None], ...]


@dataclass(frozen=True, slots=True)
class PlanAnswer:
    """Everything `plan` says. ``request`` is None where memory is declared, or nothing is known of the model."""

    plan: Plan
    request: PlanRequest | None = None
    rooms: tuple[Room, ...] = ()
    levers: tuple[Lever, ...] = ()
    speed: Speed | None = None
    doubt: str | None = None  # why it cannot be told whether it fits
    no_ceiling: str | None = None  # why there is none, and what would give one
    measured: Measured | None = None  # a speed there was, also where no ceiling is known
    trained_context: int | None = None  # tokens; what bounds the longest context where memory does not

    def document(self) -> dict[str, JsonValue]:
        """The plan's own JSON with the answers beside it."""
        speed = self.speed
        document = plan_document(
            self.plan, speed.bound if speed else None, acceptance_known=speed is None or speed.acceptance_known
        )
        ceiling = document["ceiling"]
        if isinstance(ceiling, dict):
            ceiling["measured_share"] = speed.measured_share if speed else None
            ceiling["measured"] = _measured(self.measured)
            ceiling["card"] = _card(speed.question.gpu) if speed else None
            ceiling["unknown"] = self.no_ceiling
        document["rooms"] = [_room(room) for room in self.rooms]
        document["levers"] = [
            {"name": lever.name, "change": lever.change, "freed_bytes": lever.freed_bytes} for lever in self.levers
        ]
        return document


def answer(
    request: PlanRequest, facts: ModelFacts, planned: Plan, question: SpeedQuestion, *, automatic_pool: bool = False
) -> PlanAnswer:
    """All answers about a settled request and its plan. An ``automatic_pool`` is another on other cards."""
    return PlanAnswer(
        plan=planned,
        request=request,
        rooms=tuple(_rooms(request, facts, planned, automatic_pool=automatic_pool)),
        levers=levers(request, facts),
        speed=speed_of(request, facts, question),
        no_ceiling=_no_ceiling(request, facts, question),
        doubt=_doubt(request, facts, planned),
        measured=question.measured,
        trained_context=model_longest(request, facts),
    )


def loadable(engine: EngineKind, facts: ModelFacts) -> ModelFacts:
    """The facts, where they are of a file that the engine loads. Raises ValueError: other figures would be made up."""
    if engine == "llama.cpp" and facts.format != "gguf":
        msg = "llama.cpp loads GGUF files, and these weights are none: convert them, or plan them for vllm"
        raise ValueError(msg)
    return facts


def speed_of(request: PlanRequest, facts: ModelFacts, question: SpeedQuestion) -> Speed | None:
    """The ceiling; None where the weights or the card's bandwidth are not known.

    Raises ValueError for rates that are not one for each drafted token.
    """
    rates = question.acceptance
    if rates is not None and len(rates) != request.drafted:
        msg = f"{len(rates)} acceptance rates are given for {request.drafted} drafted tokens"
        raise ValueError(msg)
    work = workload_of(request, facts)
    if work is None or question.gpu is None:
        return None
    hardware, none_accepted = hardware_of(request, question.gpu), (0.0,) * request.drafted
    accepted = none_accepted if rates is None else rates
    bound = decode_ceiling(work, hardware, depth=question.depth, batch=question.batch, acceptance=accepted)
    return Speed(question, bound, request.drafted, _share(work, hardware, question.measured, request.drafted))


def _no_ceiling(request: PlanRequest, facts: ModelFacts, question: SpeedQuestion) -> str | None:
    if not facts.weights_known:
        return _NO_WEIGHTS
    if request.draft_unknown:
        return _NO_DRAFT
    if question.gpu is not None:
        return None
    what = "this box's memory" if request.device_kind == "cpu" else "the card"
    return f"the bandwidth of {what} is not known ({HOW} measures it here; --gpu NAME or GiB:GB/s names it)"


def _share(work: Workload, hardware: Hardware, measured: Measured | None, drafted: int) -> float | None:
    """Measured over the ceiling where it was measured; None where nothing says how many drafts were accepted."""
    rates = (measured.acceptance or ()) if measured else ()
    if measured is None or len(rates) != drafted:
        return None
    bound = decode_ceiling(work, hardware, depth=measured.depth, batch=measured.batch, acceptance=rates)
    return bound.fraction_of(measured.tok_s)


def _doubt(request: PlanRequest, facts: ModelFacts, planned: Plan) -> str | None:
    if planned.fits is not None:
        return None
    unknown = {
        _NO_SIZE.get(request.engine, _NO_WEIGHTS): not facts.size_known,
        _NO_DRAFT: request.draft_unknown,
        "the device's memory is not known": any(ledger.total_bytes is None for ledger in planned.ledger),
    }
    reasons = [reason for reason, holds in unknown.items() if holds]
    if reasons:
        return " and ".join(reasons)
    return "the errors of the modelled lines decide" if planned.complete else "a part of unknown size is missing"


def _rooms(request: PlanRequest, facts: ModelFacts, planned: Plan, *, automatic_pool: bool) -> Iterator[Room]:
    """The cards asked for, beside two of them, or beside one where more were asked for."""
    cards = len(request.devices)
    here = _room_on(request, facts, planned, automatic_pool=automatic_pool)
    if request.device_kind == "cpu":
        yield here
        return
    other = _on_cards(request, 2 if cards == 1 else 1)
    if automatic_pool:
        other = settled(replace(other, kv_bytes=None), facts, automatic_pool=True)
    there = _room_on(other, facts, plan(other, facts), automatic_pool=automatic_pool)
    yield from sorted((here, there), key=lambda room: room.cards)


def _room_on(request: PlanRequest, facts: ModelFacts, planned: Plan, *, automatic_pool: bool) -> Room:
    """What the cards hold; nothing is said of ranks that the attention heads cannot be divided among."""
    cards, context = len(request.devices), planned.context or 0
    if request.engine == "vllm" and undivided(facts, cards):
        return Room(cards, planned.fits, None, ())
    lengths = sorted({length for length in (context, SHORT_REQUEST) if 0 < length <= context}, reverse=True)
    return Room(
        cards=cards,
        fits=planned.fits,
        longest_context=longest_context(request, facts, automatic_pool=automatic_pool),
        at_once=tuple((length, streams_at_once(planned, request, facts, length=length)) for length in lengths),
    )


def _on_cards(request: PlanRequest, cards: int) -> PlanRequest:
    """The same request on another number of cards like its first; what was measured on its own does not carry over."""
    first = request.devices[0]
    devices = tuple(replace(first, id=first.id if not card else f"{first.id}+{card}") for card in range(cards))
    split = "layer" if request.split == "none" else request.split
    return replace(request, devices=devices, shares=None, split=split, calibration=None)


def _measured(measured: Measured | None) -> JsonValue:
    if measured is None:
        return None
    return {
        "tok_s": measured.tok_s,
        "depth": measured.depth,
        "batch": measured.batch,
        "engine_version": measured.engine_version,
        "result": measured.result,
        "at": measured.at,
    }


def _card(gpu: Gpu | None) -> JsonValue:
    if gpu is None:
        return None
    measured = gpu.measured.bytes_s if gpu.measured else None
    known: dict[str, JsonValue] = {"name": gpu.name, "bandwidth_bytes_s": gpu.bandwidth, "source": gpu.source}
    return {**known, "measured_bandwidth_bytes_s": measured}


def _room(room: Room) -> JsonValue:
    return {
        "gpus": room.cards,
        "fits": room.fits,
        "longest_context": room.longest_context,
        "at_once": [{"tokens": length, "requests": count} for length, count in room.at_once],
    }
