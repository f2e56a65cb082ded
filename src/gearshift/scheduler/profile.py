"""What the scheduler knows of each variant and of the box. Durations in seconds, memory in bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Profile:
    """The scheduling facts of one variant."""

    id: str
    devices: frozenset[str]  # where it runs
    demand: Mapping[str, int] | None = None  # bytes by device; None = unknown: shares a device with nobody
    max_inflight: int = 1
    queue_limit: int = 100
    max_wait_s: float = 60.0
    min_resident_s: float = 10.0
    drain_timeout_s: float | None = None
    unload_after_s: float | None = None
    asleep: Mapping[str, int] | None = None  # bytes it keeps while asleep; None = it cannot sleep
    asleep_ram: int = 0  # host bytes while asleep
    load_estimate_s: float = 30.0  # until a load was measured
    launch: str = ""  # digest of all that its process is started from

    def starts_like(self, other: Profile) -> bool:
        """Whether a process started under one serves under the other: all else changes without a restart."""
        return (self.launch, self.devices) == (other.launch, other.devices)


@dataclass(frozen=True, slots=True)
class Constraint:
    """A group of variants, overriding what the memory figures say."""

    members: frozenset[str]
    swap: bool = True
    exclusive: bool = False
    persistent: bool = False


@dataclass(frozen=True, slots=True)
class World:
    """The box and everything that may run on it."""

    profiles: Mapping[str, Profile] = field(default_factory=dict)
    capacity: Mapping[str, int] = field(default_factory=dict)  # bytes by device
    constraints: tuple[Constraint, ...] = ()
    sleep_ram: int = 0  # host bytes that sleeping variants may keep together
