"""A configured variant as a question to the planner: its own settings, and what a person wants to try instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gearshift.advice.box import Box
from gearshift.advice.plan import PlanAnswer, SpeedQuestion, answer, loadable
from gearshift.advice.plan_flags import ReadModel, changed, with_draft
from gearshift.config import presence
from gearshift.domain.device import CPU_DEVICE, Device
from gearshift.domain.variant import Variant
from gearshift.planner import (
    Calibration,
    Plan,
    PlannedDevice,
    PlanRequest,
    plan_requested,
    plan_variant,
    planned_devices,
    request_for,
    settled,
)


def cards_of(variant: Variant) -> int:
    """How many GPUs a variant names, by position: the highest index counts. One when it names none."""
    indices = [gpu for gpu in variant.gpus or () if isinstance(gpu, int)]
    return max([len(variant.gpus or ()), *(index + 1 for index in indices), 1])


def ask_variant(
    variant: Variant,
    box: Box,
    read_model: ReadModel,
    *,
    engine_version: str | None,
    changes: Mapping[str, Any],
    question: SpeedQuestion,
    calibration: Calibration | None = None,
) -> PlanAnswer:
    """Plan it with ``changes`` (by flag name) in place of its own settings.

    Raises what ``read_model`` raises, and ValueError for weights that its engine does not load.
    """
    model = variant.weights and Path(variant.weights)
    facts = loadable(variant.engine.kind, read_model(model)) if model and model.exists() else None
    request = _request(variant, box, engine_version, calibration)
    if facts is None or variant.memory is not None or request is None:
        planned = plan_variant(variant, facts, box.devices, engine_version=engine_version)
        return PlanAnswer(_explained(planned, variant, found=facts is not None))
    request = replace(request, projector_bytes=projector_bytes(variant))
    request = with_draft(_tried(request, changes), read_model)
    planned = plan_requested(variant, request, facts)
    if planned.kv is None and planned.refusals:
        return PlanAnswer(planned)  # a setting that the engine does not have: its refusal is the whole answer
    automatic = variant.kv_bytes == "auto" and request.kv_bytes is None
    request = settled(request, facts, automatic_pool=automatic)
    return answer(request, facts, planned, question, automatic_pool=automatic)


def _tried(request: PlanRequest, changes: Mapping[str, Any]) -> PlanRequest:
    """With the changes; what an earlier start showed was of the settings as they were, and says nothing of others."""
    tried = changed(request, changes)
    return tried if tried == request else replace(tried, calibration=None)


def _request(
    variant: Variant, box: Box, engine_version: str | None, calibration: Calibration | None
) -> PlanRequest | None:
    """None for a program that is no engine of ours. GPUs that are not on this box have an unknown size."""
    if variant.engine.kind == "command":
        return None
    cards = [device for device in box.devices if device.id != CPU_DEVICE]
    absent = variant.gpus is not None and (not cards or len(planned_devices(variant, cards)) < len(variant.gpus))
    if not absent:
        devices = planned_devices(variant, box.devices)
        request = request_for(variant, devices, engine_version=engine_version, calibration=calibration)
        return replace(request, other_bytes=box.others, ram_bytes=box.ram_bytes)
    named = tuple(Device(_name(gpu), None, "", 0) for gpu in variant.gpus or ())
    request = request_for(variant, named, engine_version=engine_version)
    return replace(request, devices=tuple(PlannedDevice(device.id, None) for device in request.devices))


def _name(gpu: int | str) -> str:
    return gpu if isinstance(gpu, str) else f"gpu{gpu}"


def projector_bytes(variant: Variant) -> int:
    """Bytes of llama.cpp's mmproj file; 0 where none is named or it is not here."""
    named = variant.args.get("mmproj") or variant.args.get("mm")
    path = Path(named) if isinstance(named, str) else None
    return path.stat().st_size if path and presence(path) == "there" and path.is_file() else 0


def _explained(planned: Plan, variant: Variant, *, found: bool) -> Plan:
    """With the reason, where the model's files are what is missing."""
    if found or variant.memory is not None or variant.engine.kind == "command":
        return planned
    why = f"{variant.weights} is not here" if variant.weights else "it names no weights"
    return replace(planned, notes=(f"nothing is known of this variant's memory: {why}",))
