"""A merged variant section to the frozen `Variant` that every other room uses."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from pydantic import JsonValue

from gearshift.config.files import Base
from gearshift.config.presence import presence
from gearshift.config.schema import (
    DefaultsSection,
    EnginePin,
    EngineSection,
    EnginesSection,
    FiltersSection,
    ProbeSection,
    SleepSection,
    SpeculationSection,
    VariantSection,
)
from gearshift.domain.variant import (
    ArgValue,
    EngineKind,
    EngineRef,
    Filters,
    Probe,
    Scalar,
    Sleep,
    Speculation,
    Timing,
    Variant,
)

Installations = Mapping[EngineKind, EngineRef]


def build_variant(model: str, name: str, section: VariantSection, base: Base, engines: Installations) -> Variant:
    """The variant that a checked section means; ``engines`` are the installations for variants that name none.

    Its engine, and the method of its speculation, must be there.
    """
    template = _path(section.template, base)
    return Variant(
        model=model,
        name=name,
        engine=_engine(section.engine, base, engines),
        weights=base.weights(section.weights) if section.weights else None,
        context=section.context,
        gpus=tuple(section.gpus) if section.gpus is not None else None,
        speculation=_speculation(section.speculation, base),
        kv_dtype=section.kv_dtype,
        kv_bytes=section.kv_bytes,
        parallel=section.parallel,
        template=template,
        template_sha256=_content(template),
        probe=_probe(section.probe),
        max_inflight=section.max_inflight,
        queue_limit=section.queue_limit,
        memory=section.memory,
        args={flag: _argument(value) for flag, value in section.args.items()},
        env=section.env,
        command=_command(section.command),
        stop=_command(section.stop),
        upstream=section.upstream.rstrip("/") if section.upstream else None,
        sleep=_sleep(section.sleep),
        timing=_timing(section),
        sampling=section.sampling,
        filters=_filters(section.filters),
        meter=section.meter,
    )


def installations(section: EnginesSection, base: Base) -> Installations:
    """The default installation of each engine kind that `engines:` names."""
    pins: dict[EngineKind, EnginePin | None] = {"llama.cpp": section.llama_cpp, "vllm": section.vllm}
    return {kind: EngineRef(kind, pin.version, _path(pin.path, base)) for kind, pin in pins.items() if pin is not None}


def _engine(section: EngineSection | None, base: Base, engines: Installations) -> EngineRef:
    if section is None or section.kind is None:
        msg = "a variant without an engine was not held back"
        raise AssertionError(msg)
    own = EngineRef(section.kind, section.version, _path(section.path, base))
    return own if own.version or own.path else engines.get(own.kind, own)


def _path(text: str | None, base: Base) -> Path | None:
    return base.path(text) if text else None


def _content(path: Path | None) -> str | None:
    """The SHA-256 of a small file, so that an edit of it is a change; None where it cannot be read."""
    if path is None or presence(path) != "there":
        return None
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def _command(command: list[str] | str | None) -> tuple[str, ...] | None:
    if command is None:
        return None
    return tuple(shlex.split(command) if isinstance(command, str) else command)


def _speculation(section: SpeculationSection | None, base: Base) -> Speculation | None:
    if section is None or section.method is None:
        return None
    return Speculation(section.method, section.tokens, base.weights(section.draft) if section.draft else None)


def _argument(value: JsonValue) -> ArgValue:
    """Scalars and lists of scalars as they are; nested values as the JSON text that engines take."""
    if isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, list) and all(isinstance(item, str | int | float | bool) for item in value):
        return tuple(cast("list[Scalar]", value))
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _probe(section: ProbeSection) -> Probe:
    return Probe(section.kind, section.path)


def _sleep(section: SleepSection | None) -> Sleep | None:
    return Sleep(section.level, section.ram, section.wake_timeout) if section else None


def _filters(section: FiltersSection) -> Filters:
    return Filters(tuple(section.drop), section.force)


def _timing(section: DefaultsSection) -> Timing:
    return Timing(
        load_timeout_s=section.load_timeout,
        stall_timeout_s=section.stall_timeout,
        stop_grace_s=section.stop_grace,
        memory_timeout_s=section.memory_timeout,
        drain_timeout_s=section.drain_timeout,
        max_wait_s=section.max_wait,
        min_resident_s=section.min_resident,
        unload_after_s=section.idle.unload_after,
        probe_every_s=section.probe_every,
        probe_timeout_s=section.probe_timeout,
    )
