"""This box as the verbs look at it: its devices, whose processes are on them, how fast their memory is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gearshift.advice.bandwidths import Bandwidths, card_here
from gearshift.advice.box import Box
from gearshift.cli.session import Session
from gearshift.domain.device import Device, DeviceMemory
from gearshift.domain.errors import GearshiftError
from gearshift.hardware import host_memory, open_memory
from gearshift.planner import Gpu


def this_box(session: Session) -> Box:
    """This box's devices and what is held there by others than the engines of the running server."""
    memory = open_memory(session.env)
    devices = memory.devices()
    held = _held_by_others(memory, devices, our_pids(session))
    return Box(devices, held, host_memory().total_bytes)


def our_pids(session: Session) -> frozenset[int]:
    """Processes of this box's server; one elsewhere has others."""
    if session.url:
        return frozenset()
    try:
        rows: list[dict[str, Any]] = session.admin.get("/variants")
    except GearshiftError:
        return frozenset()
    return frozenset(pid for row in rows for pid in row["pids"])


def known_card(session: Session, devices: Sequence[Device], wanted: str | None = None) -> Gpu | None:
    """What is known of the device that a ceiling is of: the one ``wanted`` by id, else the first."""
    return card_here(Bandwidths(session.paths.bandwidths), devices, wanted)


def _held_by_others(memory: DeviceMemory, devices: Sequence[Device], ours: frozenset[int]) -> dict[str, int]:
    readings = memory.read([device.id for device in devices], ())
    return {
        device: max(reading.used_bytes - sum(held for pid, held in reading.by_pid.items() if pid in ours), 0)
        for device, reading in readings.items()
    }
