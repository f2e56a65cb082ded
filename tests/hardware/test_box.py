"""What a box is and how it is set, read from a /proc and a /sys of its own."""

from __future__ import annotations

import platform
from pathlib import Path

from gearshift.hardware import read_hardware

NVRM = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23\nGCC version: 12\n"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_box_tells_its_processor_its_driver_and_how_its_cores_are_set(tmp_path: Path) -> None:
    proc, cpus = tmp_path / "proc", tmp_path / "cpu"
    write(proc / "cpuinfo", "processor : 0\nmodel name\t: AMD EPYC 7763\nmodel name\t: AMD EPYC 7763\n")
    write(proc / "driver/nvidia/version", NVRM)
    write(proc / "meminfo", "MemTotal: 1024 kB\nMemFree: 512 kB\n")
    for core, mhz in ((0, 3500), (1, 2800)):
        write(cpus / f"cpu{core}/cpufreq/scaling_max_freq", f"{mhz}000\n")
        write(cpus / f"cpu{core}/cpufreq/scaling_governor", "performance\n")
    write(cpus / "cpufreq/policy0/scaling_governor", "not a core\n")
    found = read_hardware((), {}, proc=proc, cpus=cpus)
    assert found.cpu == "AMD EPYC 7763"
    assert found.driver == "NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23"
    assert (found.cpu_governor, found.cpu_max_mhz) == ("performance", 3500)
    assert found.ram_bytes == 1024**2
    write(cpus / "cpu1/cpufreq/scaling_governor", "powersave\n")
    assert read_hardware((), {}, proc=proc, cpus=cpus).cpu_governor == "performance, powersave"


def test_what_a_box_does_not_tell_is_unknown(tmp_path: Path) -> None:
    found = read_hardware((), {}, proc=tmp_path / "none", cpus=tmp_path / "none")
    assert (found.gpus, found.driver, found.cpu, found.ram_bytes) == ((), None, platform.machine(), None)
    assert (found.cpu_governor, found.cpu_max_mhz) == (None, None)
    assert found.cores > 0
