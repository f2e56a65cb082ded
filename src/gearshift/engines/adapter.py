"""What an engine adapter is given, a launch request, and what it makes of it, a launch spec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gearshift.domain.device import CPU_DEVICE
from gearshift.domain.engine import EngineInstall, FlagMap
from gearshift.domain.launch import Endpoint, LaunchSpec, Placement
from gearshift.domain.variant import Variant

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """Everything that an adapter makes a launch spec from."""

    variant: Variant
    placement: Placement
    install: EngineInstall
    flags: FlagMap
    port: int
    folder: Path  # private to this launch, made by the supervisor
    base_env: Mapping[str, str]

    @property
    def on_gpu(self) -> bool:
        """Whether the placement holds a GPU."""
        return any(device != CPU_DEVICE for device in self.placement.devices)

    @property
    def gpus(self) -> tuple[str, ...]:
        """The placement's GPUs by UUID, in order."""
        return tuple(device for device in self.placement.devices if device != CPU_DEVICE)

    @property
    def endpoint(self) -> Endpoint:
        """Loopback, at the port that was picked for this launch."""
        return Endpoint(f"http://{LOOPBACK}:{self.port}", LOOPBACK, self.port)

    @property
    def context(self) -> int | None:
        """What the planner fixed, else what the variant says."""
        return self.placement.context or self.variant.context


class Adapter(Protocol):
    """Translates for one engine kind; pure."""

    @property
    def inflight(self) -> int:
        """How many requests the engine works on at once when the variant does not say."""
        ...

    def spec(self, request: LaunchRequest) -> LaunchSpec: ...


def is_local(weights: str | None) -> bool:
    """Whether weights are files of this box rather than a hub id; the configuration has made paths absolute."""
    return weights is not None and weights.startswith("/")
