"""`plan` and `plan_variant`: the two questions the rest of Gearshift asks the planner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gearshift.artifacts.facts import ModelFacts
from gearshift.domain.device import Device
from gearshift.domain.units import GIB
from gearshift.domain.variant import Variant
from gearshift.planner.calibration import Calibration
from gearshift.planner.ledger import DeviceLedger, Line, Plan, verdict, with_others
from gearshift.planner.llamacpp import plan_llamacpp
from gearshift.planner.llamacpp_fit import longest_total_context
from gearshift.planner.request import WHOLE_WINDOW, PlanRequest
from gearshift.planner.variant_request import planned_devices, request_for, spreads
from gearshift.planner.vllm import plan_vllm
from gearshift.planner.vllm_start import resolve

_FIT_SPARE, _FIT_LEAST = GIB, 4096  # llama.cpp's -fitt and -fitc


def plan(request: PlanRequest, facts: ModelFacts) -> Plan:
    """Where each byte goes, whether it fits, and the engine's own cache figures.

    Raises ValueError for a cache type the engine does not have or an engine that cannot be planned.
    """
    planner = {"vllm": plan_vllm, "llama.cpp": plan_llamacpp}.get(request.engine)
    if planner is None:
        msg = f"{request.engine!r} variants are not planned: their memory is declared"
        raise ValueError(msg)
    planned = planner(request, facts)
    return with_others(planned, request.other_bytes) if request.other_bytes else planned


def plan_variant(
    variant: Variant,
    facts: ModelFacts | None,
    devices: Sequence[Device],
    *,
    engine_version: str | None,
    calibration: Calibration | None = None,
    draft: ModelFacts | None = None,
    projector_bytes: int = 0,
) -> Plan:
    """Plan a configured variant on the devices it names; ``facts`` None = the weights are not at hand.

    ``draft`` are the facts of the separate draft model that ``speculation.draft`` names; without them such a
    variant's plan is incomplete. ``projector_bytes`` is the size of llama.cpp's mmproj file.

    What the user declares under ``memory`` wins over every model. ``kv_bytes: auto`` is resolved to the smallest
    pool that holds one full-length request. An unknown part leaves ``bytes_by_device`` None.
    """
    chosen = planned_devices(variant, devices)
    if variant.memory is not None:
        return _declared(variant.memory, chosen)
    if facts is None or variant.engine.kind == "command" or not chosen:
        return Plan(fits=None, complete=False, notes=("nothing is known of this variant's memory",))
    request = request_for(variant, chosen, engine_version=engine_version, calibration=calibration)
    return plan_requested(variant, replace(request, draft=draft, projector_bytes=projector_bytes), facts)


def plan_requested(variant: Variant, request: PlanRequest, facts: ModelFacts) -> Plan:
    """Plan a variant's request, which may differ from `request_for`'s in what a person wants to try."""
    try:
        planned = plan(settled(request, facts, automatic_pool=variant.kv_bytes == "auto"), facts)
    except ValueError as error:
        return Plan(fits=False, refusals=(str(error),), complete=False)
    if spread_flag := spreads(variant):
        note = f"--{spread_flag} spreads the model in a way that is not planned"
        planned = replace(planned, complete=False, fits=None, notes=(*planned.notes, note))
    return _with_totals(planned, request.calibration) if request.calibration else planned


def settled(request: PlanRequest, facts: ModelFacts, *, automatic_pool: bool = False) -> PlanRequest:
    """The request with what is decided at the start: the pool where it is left to us, the context where to the engine.

    ``automatic_pool`` fills an unset vLLM pool with the smallest that holds one full-length request. Left without a
    context, llama.cpp's own --fit shortens it, never below 4,096, to keep 1 GiB free on each card.
    """
    if request.engine == "vllm":
        pool = resolve(request, facts).smallest_pool if automatic_pool else None
        return replace(request, kv_bytes=request.kv_bytes if request.kv_bytes is not None else pool)
    if request.context == WHOLE_WINDOW:
        return replace(request, context=request.positions or facts.context_train)
    if request.context is not None or request.device_kind == "cpu":
        return request
    fitted = longest_total_context(request, facts, most=request.positions or facts.context_train or 0, spare=_FIT_SPARE)
    return replace(request, context=max(fitted, min(_FIT_LEAST, facts.context_train or _FIT_LEAST)))


def _declared(memory: Mapping[str, int] | int, devices: Sequence[Device]) -> Plan:
    """The user's own figures: one for each device, or by device id or index."""
    ledgers = tuple(
        DeviceLedger(device.id, device.total_bytes, (Line("declared", size),))
        for device in devices
        if (size := _declared_on(memory, device)) is not None
    )
    return Plan(fits=verdict(ledgers, (), complete=True), ledger=ledgers, complete=bool(ledgers))


def _declared_on(memory: Mapping[str, int] | int, device: Device) -> int | None:
    if isinstance(memory, int):
        return memory
    return next((memory[name] for name in (device.id, str(device.index)) if name in memory), None)


def _with_totals(planned: Plan, calibration: Calibration) -> Plan:
    """What a running start was seen to hold beyond the ledger becomes a measured line; less is no reason to shrink."""
    ledgers = tuple(_topped_up(ledger, calibration.totals.get(ledger.device)) for ledger in planned.ledger)
    return replace(planned, ledger=ledgers, fits=verdict(ledgers, planned.refusals, complete=planned.complete))


def _topped_up(ledger: DeviceLedger, seen: int | None) -> DeviceLedger:
    beyond = (seen or 0) - ledger.planned_bytes
    return replace(ledger, lines=(*ledger.lines, Line("unexplained", beyond, "measured"))) if beyond > 0 else ledger
