"""A box as a plan is asked for it: its devices, and what others hold of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gearshift.domain.device import Device
from gearshift.planner import Gpu


@dataclass(frozen=True, slots=True)
class Box:
    """Where a variant would run. ``others``: bytes that other processes hold, by device id."""

    devices: tuple[Device, ...]
    others: Mapping[str, int] = field(default_factory=dict)
    ram_bytes: int | None = None  # of the host, None = another one


def box_of(gpu: Gpu, cards: int) -> Box:
    """A box that is not here: cards of one kind, empty."""
    return Box(tuple(Device(f"gpu{index}", index, gpu.name, gpu.total_bytes) for index in range(cards)))
