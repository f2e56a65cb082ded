"""One call from a variant and its placement to a launch spec; the adapters by engine kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from gearshift.domain.device import Device
from gearshift.domain.engine import EngineInstall
from gearshift.domain.launch import LaunchSpec, Placement
from gearshift.domain.startup import LogFold
from gearshift.domain.variant import EngineKind, Variant
from gearshift.engines.adapter import Adapter, LaunchRequest
from gearshift.engines.command import Command
from gearshift.engines.flags import packaged_flags
from gearshift.engines.llamacpp import LlamaCpp
from gearshift.engines.llamacpp_log import LlamaCppLog
from gearshift.engines.plain_log import PlainLog
from gearshift.engines.vllm import Vllm
from gearshift.engines.vllm_log import VllmLog

ADAPTERS: Mapping[EngineKind, Adapter] = {"llama.cpp": LlamaCpp(), "vllm": Vllm(), "command": Command()}


def launch_spec(
    variant: Variant,
    placement: Placement,
    install: EngineInstall,
    *,
    port: int,
    folder: Path,
    base_env: Mapping[str, str],
    devices: Sequence[Device] = (),
) -> LaunchSpec:
    """How ``install`` is started for ``variant`` on ``placement``, listening on loopback at ``port``.

    ``folder`` is the private folder the supervisor makes for this launch. Where the install has no flag map the
    packaged table stands in. A placement without devices takes every one of ``devices``.
    """
    flags = install.flags or packaged_flags(install.kind, install.version)
    if not placement.devices:
        placement = Placement(tuple(device.id for device in devices), placement.kv_bytes, placement.context)
    request = LaunchRequest(variant, placement, install, flags, port, folder, base_env)
    return ADAPTERS[install.kind].spec(request)


def default_inflight(variant: Variant) -> int:
    """How many requests are sent to the engine at once: ``max_inflight``, else its slots."""
    return variant.max_inflight or variant.parallel or ADAPTERS[variant.engine.kind].inflight


def log_fold(kind: EngineKind) -> LogFold:
    """The initial state of the log parser for an engine kind."""
    folds: Mapping[EngineKind, LogFold] = {"llama.cpp": LlamaCppLog(), "vllm": VllmLog(), "command": PlainLog()}
    return folds[kind]
