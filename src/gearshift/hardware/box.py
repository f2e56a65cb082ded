"""What this box is and how it is set, for whoever has to tell measurements of it from those of another."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gearshift.domain.device import CPU_DEVICE, Device
from gearshift.domain.provenance import Gpu, GpuSettings, Hardware
from gearshift.hardware.host import core_count, cpu_name, host_memory

_KHZ_A_MHZ = 1000  # cpufreq speaks of kilohertz


def read_hardware(
    devices: Sequence[Device],
    settings: Mapping[str, GpuSettings],
    *,
    proc: Path = Path("/proc"),
    cpus: Path = Path("/sys/devices/system/cpu"),
) -> Hardware:
    """The box with these ``devices``; ``settings`` are of its GPUs by UUID. What cannot be read is None."""
    gpus = [device for device in devices if device.id != CPU_DEVICE]
    governors = sorted(set(_policies(cpus, "scaling_governor")))
    limits = [int(text) for text in _policies(cpus, "scaling_max_freq") if text.isdigit()]
    return Hardware(
        gpus=tuple(Gpu(gpu.name, gpu.total_bytes, settings.get(gpu.id, GpuSettings())) for gpu in gpus),
        driver=_driver(proc),
        cpu=cpu_name(proc=proc),
        cpu_governor=", ".join(governors) or None,
        cpu_max_mhz=max(limits) // _KHZ_A_MHZ if limits else None,
        cores=core_count(),
        ram_bytes=_ram(proc),
        kernel=platform.release(),
    )


def _policies(cpus: Path, name: str) -> Iterator[str]:
    """One setting of every core that has it; a virtual machine's have none (kernel: admin-guide/pm/cpufreq)."""
    for file in sorted(cpus.glob(f"cpu[0-9]*/cpufreq/{name}")):
        if text := _first_line(file):
            yield text


def _driver(proc: Path) -> str | None:
    """NVIDIA's kernel driver in its own words: ``NVRM version: NVIDIA UNIX ... 580.95.05 ...``."""
    return (_first_line(proc / "driver/nvidia/version") or "").partition(":")[2].strip() or None


def _ram(proc: Path) -> int | None:
    try:
        return host_memory(proc=proc).total_bytes
    except (OSError, KeyError):
        return None


def _first_line(file: Path) -> str | None:
    return next((line.strip() for line in _lines(file)), None)


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(errors="replace").splitlines()
    except OSError:
        return []
