"""Which memory this box is judged by: its NVIDIA GPUs, a scripted fake in tests, else the host's memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gearshift.domain.device import DeviceMemory
from gearshift.hardware.cpu import CpuMemory
from gearshift.hardware.fake import FAKE_GPUS, FakeMemory
from gearshift.hardware.nvml import open_nvml


def open_memory(env: Mapping[str, str], *, budget_bytes: int | None = None) -> DeviceMemory:
    """The box's device memory.

    ``budget_bytes`` is what the ``cpu`` device may hold on a box without a GPU; None = what the host has. A driver
    that is absent or does not answer counts as no GPU. ``GEARSHIFT_FAKE_GPUS`` replaces everything, for tests only.
    Raises GearshiftError where that variable cannot be read.
    """
    if script := env.get(FAKE_GPUS):
        return FakeMemory.parse(script)
    gpus = open_nvml()
    return gpus if gpus and gpus.devices() else CpuMemory(budget_bytes, proc=Path("/proc"))
