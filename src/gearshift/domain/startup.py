"""What an engine's start-up log tells: stages, figures, the root cause of a failure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol, Self

from gearshift.domain.errors import Failure

BufferKind = Literal["weights", "kv", "state", "compute", "graph", "output"]
BufferContext = Literal["target", "draft", "vision"]


@dataclass(frozen=True, slots=True)
class DeviceBuffer:
    """One buffer the log named: what it is for, where it lies, its bytes."""

    device: str  # the engine's own name: "CUDA0", "Vulkan0", "CPU_Mapped", "rank 0"
    kind: BufferKind
    bytes: int
    context: BufferContext = "target"
    host: bool = False  # in host memory


@dataclass(frozen=True, slots=True)
class StartFigures:
    """Numbers read from a start-up log; None where the log does not say. Bytes are sums over devices."""

    version: str | None = None
    weights_bytes: int | None = None
    kv_pool_bytes: int | None = None  # vLLM: minimum over ranks, per GPU
    pool_suggestions: tuple[int, int] | None = None  # vLLM, bytes per GPU: within the asked share; of the whole card
    kv_tokens: int | None = None
    concurrency: float | None = None
    block_size: int | None = None
    state_bytes: int | None = None
    compute_bytes: int | None = None
    graph_bytes: int | None = None
    engine_init_s: float | None = None
    layers_offloaded: tuple[int, int] | None = None
    context: int | None = None
    speculation_method: str | None = None
    speculation_tokens: int | None = None
    buffers: tuple[DeviceBuffer, ...] = ()


@dataclass(frozen=True, slots=True)
class StartReport:
    """The state of one start as its log shows it so far."""

    stage: str = "starting"  # a few words for a person: "loading weights", "warming up", "ready"
    progress: float | None = None  # 0..1 within the stage, where the log says
    ready: bool = False
    failure: Failure | None = None
    figures: StartFigures = field(default_factory=StartFigures)
    notices: tuple[str, ...] = ()  # engine warnings that change meaning, verbatim


class LogFold(Protocol):
    """A pure fold over log lines: immutable, ``feed`` returns the next state."""

    @property
    def report(self) -> StartReport: ...

    def feed(self, line: str) -> Self: ...
