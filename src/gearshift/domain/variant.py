"""A variant: one way to run a model. All durations in seconds, sizes in bytes, lengths in tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

EngineKind = Literal["llama.cpp", "vllm", "command"]
ProbeKind = Literal["chat", "completion", "embedding", "rerank", "http", "none"]
Scalar = str | int | float | bool
ArgValue = Scalar | tuple[Scalar, ...] | None  # None = a bare flag; False = its --no- form


@dataclass(frozen=True, slots=True)
class EngineRef:
    """Which installation runs a variant: the newest managed one, a pinned version, or the user's own path."""

    kind: EngineKind
    version: str | None = None  # "0.32.0", "11434"
    path: Path | None = None  # a binary, a virtual environment, or a folder that holds one

    def __str__(self) -> str:
        pin = f"=={self.version}" if self.version else ""
        return f"{self.kind}{pin}" + (f" at {self.path}" if self.path else "")


@dataclass(frozen=True, slots=True)
class Speculation:
    """Speculative decoding, engine-neutral: ``mtp``, ``ngram``, ``draft``, or a method under the engine's name."""

    method: str
    tokens: int | None = None  # drafted per step
    draft: str | None = None  # weights of the draft model, for method "draft"


@dataclass(frozen=True, slots=True)
class Probe:
    """How readiness is proved beyond the health answer: one token by default."""

    kind: ProbeKind = "chat"
    path: str | None = None  # for kind "http": a GET that must answer 2xx


@dataclass(frozen=True, slots=True)
class Timing:
    """Deadlines and patience of one variant, seconds; None switches the thing off."""

    load_timeout_s: float = 600.0
    stall_timeout_s: float | None = 180.0  # no log line and no CPU time for so long while loading
    stop_grace_s: float = 15.0
    memory_timeout_s: float = 30.0  # a stopped engine's device memory must be back by then
    drain_timeout_s: float | None = None
    max_wait_s: float = 60.0
    min_resident_s: float = 10.0
    unload_after_s: float | None = 600.0  # idle unload
    probe_every_s: float | None = 30.0  # liveness of a ready engine
    probe_timeout_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Sleep:
    """vLLM sleep mode as a state: level 1 keeps the weights in host RAM, level 2 drops them."""

    level: Literal[1, 2] = 1
    ram_bytes: int | None = None  # budget; None = the weights' size
    wake_timeout_s: float = 15.0  # a wake counts only when a token came within this time


@dataclass(frozen=True, slots=True)
class Filters:
    """Edits of a request body beyond the model's name."""

    drop: tuple[str, ...] = ()  # top-level keys taken out
    force: Mapping[str, object] = field(default_factory=dict)  # top-level keys set whatever the client says


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to run a model: engine, weights, context, speculation and flags, fully resolved."""

    model: str
    name: str
    engine: EngineRef
    weights: str | None = None  # absolute path or hub id
    context: int | None = None
    gpus: tuple[int | str, ...] | None = None  # index or UUID; None = every device
    speculation: Speculation | None = None
    kv_dtype: str | None = None  # "q8_0", "fp8"; for llama.cpp "K,V" may differ
    kv_bytes: int | Literal["auto"] | None = None
    parallel: int | None = None  # slots (llama.cpp), max-num-seqs (vLLM)
    template: Path | None = None
    template_sha256: str | None = None  # of its content when the configuration was read; None = it was not there
    probe: Probe = field(default_factory=Probe)
    max_inflight: int | None = None  # None = parallel, else the engine's own default
    queue_limit: int = 100
    memory: Mapping[str, int] | int | None = None  # declared bytes per device (or on each)
    args: Mapping[str, ArgValue] = field(default_factory=dict)  # long flag names without dashes
    env: Mapping[str, str] = field(default_factory=dict)
    command: tuple[str, ...] | None = None
    stop: tuple[str, ...] | None = None
    upstream: str | None = None  # base URL of a server outside our process tree
    sleep: Sleep | None = None
    timing: Timing = field(default_factory=Timing)
    sampling: Mapping[str, object] = field(default_factory=dict)  # set where the client is silent
    filters: Filters = field(default_factory=Filters)
    meter: Literal["active", "passive"] = "active"

    @property
    def id(self) -> str:
        return f"{self.model}:{self.name}"

    @property
    def launch_digest(self) -> str:
        """Identifies what a process is started from: equal digests need no restart between two configurations."""
        process_only = replace(
            self,
            timing=Timing(),
            sampling={},
            filters=Filters(),
            meter="active",
            queue_limit=0,
            max_inflight=None,
        )
        return hashlib.sha256(repr(process_only).encode()).hexdigest()

    def start_key(self, build: str | None) -> str:
        """Identifies what a start shows: the launch and the engine's build. None = that is not known."""
        return f"{self.launch_digest}@{build or ''}"
