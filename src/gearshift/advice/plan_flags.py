"""The flag form of `plan`: what is typed to a `PlanRequest`, and which flag belongs to which engine."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gearshift.artifacts.facts import ModelFacts
from gearshift.domain.device import CPU_DEVICE, Device
from gearshift.domain.variant import EngineKind, Speculation
from gearshift.planner import DeviceKind, Gpu, PlannedDevice, PlanRequest

ReadModel = Callable[[Path], ModelFacts]
OFF = Speculation("off")  # said, unlike None, which leaves it as it is
_SPECULATION = re.compile(r"(?P<method>off|mtp|ngram)(?::(?P<tokens>\d+))?|draft:(?P<path>.+?)(?::(?P<drafted>\d+))?")
_ONLY: Mapping[str, EngineKind] = {
    "kv_bytes": "vllm",
    "prefix_caching": "vllm",
    "max_num_seqs": "vllm",
    "max_num_batched_tokens": "vllm",
    "weights_size": "vllm",
    "ubatch": "llama.cpp",
    "split": "llama.cpp",
}


def parse_speculation(text: str) -> Speculation:
    """``off``, ``mtp:3``, ``ngram:4`` or ``draft:PATH:3``; without a number it is the engine's default.

    Raises ValueError for anything else, and for no tokens at all.
    """
    match = _SPECULATION.fullmatch(text)
    if match is None or (match["method"] == "off" and match["tokens"]):
        msg = f"{text!r} is none of off, mtp:N, ngram:N, draft:PATH:N"
        raise ValueError(msg)
    count = match["tokens"] or match["drafted"]
    tokens = int(count) if count else None
    if tokens == 0:
        msg = f"{text!r} drafts no tokens; write off"
        raise ValueError(msg)
    return Speculation(match["method"] or "draft", tokens, match["path"])


def parse_acceptance(text: str) -> tuple[float, ...]:
    """``0.83,0.67``: accepted over drafts by position, so it never rises. Raises ValueError."""
    try:
        rates = tuple(float(part) for part in text.split(","))
    except ValueError:
        rates = ()
    if not rates or not all(0 <= rate <= 1 for rate in rates):
        msg = f"{text!r} is no list of rates from 0 to 1, such as 0.83,0.67"
        raise ValueError(msg)
    if list(rates) != sorted(rates, reverse=True):
        msg = f"{text!r} rises: a position is accepted only where the one before it is"
        raise ValueError(msg)
    return rates


def foreign_flag(engine: EngineKind, given: Mapping[str, Any]) -> str | None:
    """The first flag given that ``engine`` does not have, by its name in ``given``; None when all are its own."""
    return next((name for name, owner in _ONLY.items() if given.get(name) is not None and owner != engine), None)


def stated(facts: ModelFacts, size: int | None) -> ModelFacts:
    """The facts with the ``size`` in bytes that somebody gave for weights that are not here.

    Raises ValueError where they are here: their headers say it to the byte.
    """
    if size is None:
        return facts
    if facts.weights_known:
        msg = "--weights-size is for weights that are not here; the headers of these say how large they are"
        raise ValueError(msg)
    return replace(facts, stated_bytes=size)


def changed(request: PlanRequest, given: Mapping[str, Any]) -> PlanRequest:
    """The request with every flag that was given (is not None) in place of its own setting.

    ``given`` uses the flags' names; ``max_num_seqs`` is ``parallel`` under vLLM's name.
    """
    fields = {name: value for name, value in given.items() if value is not None}
    sequences = fields.pop("max_num_seqs", None)
    if sequences is not None:
        fields["parallel"] = sequences
    if "speculation" in fields:
        fields["draft"] = None
    changed_request = replace(request, **fields)
    off = changed_request.speculation == OFF
    return replace(changed_request, speculation=None) if off else changed_request


def with_draft(request: PlanRequest, read_model: ReadModel) -> PlanRequest:
    """With the facts of the separate draft model, where its file is here. Raises what ``read_model`` raises."""
    named = request.speculation.draft if request.speculation else None
    if named is None or not Path(named).exists():
        return request
    return replace(request, draft=read_model(Path(named)))


def flag_devices(kind: DeviceKind, count: int, gpu: Gpu | None, here: Sequence[Device]) -> tuple[PlannedDevice, ...]:
    """What to place on: ``count`` cards of the kind named, else this box's first ones, else cards of unknown size.

    Several ranks on a CPU are one to a NUMA node, whose memory is not known here.
    """
    if kind == "cpu":
        host = next((device for device in here if device.id == CPU_DEVICE), None)
        total = gpu.total_bytes if gpu else host.total_bytes if host and count == 1 else None
        ids = (CPU_DEVICE, *(f"{CPU_DEVICE}+{rank}" for rank in range(1, count)))
        return tuple(PlannedDevice(name, total) for name in ids)
    cards = [device for device in here if device.id != CPU_DEVICE]
    if gpu is None and count <= len(cards):
        return tuple(PlannedDevice(device.id, device.total_bytes, device.name) for device in cards[:count])
    size, name = (gpu.total_bytes, gpu.name) if gpu else (None, "")
    return tuple(PlannedDevice(f"gpu{index}", size, name) for index in range(count))
