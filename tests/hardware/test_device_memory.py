"""One port to device memory, whatever the box: host processes, NVML, or a script."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gearshift.domain.device import CPU_DEVICE
from gearshift.domain.errors import GearshiftError
from gearshift.domain.units import GIB, MIB
from gearshift.hardware import CpuMemory, FakeMemory, NvmlMemory, host_memory, open_memory
from gearshift.hardware.cpu import process_bytes


def test_the_cpu_device_holds_what_the_host_or_the_budget_allows() -> None:
    assert CpuMemory(GIB).devices()[0].total_bytes == GIB
    assert CpuMemory(1 << 60).devices()[0].total_bytes == host_memory().total_bytes
    assert CpuMemory().devices()[0].id == CPU_DEVICE


def test_host_memory_is_read_process_by_process() -> None:
    program = "import sys; block = bytearray(b'x') * (64 << 20); print('ready', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-S", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        process.stdout.readline()
        reading = CpuMemory().read([CPU_DEVICE], [process.pid, 2**22 + 1])[CPU_DEVICE]
        process.kill()
    assert reading.by_pid.keys() == {process.pid}
    assert 64 * MIB <= reading.used_bytes < 128 * MIB
    assert CpuMemory().read([CPU_DEVICE], [process.pid])[CPU_DEVICE].used_bytes == 0
    assert CpuMemory().read(["GPU-0"], [process.pid]) == {}


def test_where_the_share_of_a_process_is_not_told_its_resident_size_is(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1/status").write_text("Name:\tengine\nVmRSS:\t    2048 kB\n")
    assert process_bytes(tmp_path, 1) == 2 * MIB
    (tmp_path / "1/smaps_rollup").write_text("00400000-7ffd [rollup]\nRss: 2048 kB\nPss:    1024 kB\nPss_Dirty: 1 kB\n")
    assert process_bytes(tmp_path, 1) == MIB


class NvmlFault(Exception):  # noqa: N818 - NVML's error under a short name
    pass


@dataclass
class Card:
    uuid: str | bytes
    total: int
    used: int
    compute: dict[int, int | None] = field(default_factory=dict)
    graphics: dict[int, int | None] | None = None  # None: not supported
    lost: bool = False
    memory: tuple[int, int] | None = None  # MHz and bits; None: not supported


@dataclass
class Listed:
    pid: int
    usedGpuMemory: int | None  # noqa: N815 - the binding's own name


class FakeNvml:
    """Shaped like `pynvml`."""

    NVMLError: type[Exception] = NvmlFault

    def __init__(self, *cards: Card, broken: bool = False) -> None:
        self._cards = cards
        self._broken = broken

    def nvmlInit(self) -> None:  # noqa: N802 - the binding's own names
        if self._broken:
            raise NvmlFault

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802 - likewise
        return len(self._cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Card:  # noqa: N802 - likewise
        return self._cards[index]

    def nvmlDeviceGetUUID(self, handle: Card) -> str | bytes:  # noqa: N802 - likewise
        return handle.uuid

    def nvmlDeviceGetName(self, handle: Card) -> str | bytes:  # noqa: ARG002, N802 - likewise
        return "NVIDIA GeForce RTX 3090"

    def nvmlDeviceGetMemoryInfo(self, handle: Card) -> Card:  # noqa: N802 - likewise
        if handle.lost:
            msg = "GPU is lost"
            raise NvmlFault(msg)
        return handle

    def nvmlDeviceGetMaxClockInfo(self, handle: Card, kind: int) -> int:  # noqa: N802 - likewise
        if handle.memory is None:
            raise NvmlFault
        graphics, memory = 0, 2  # NVML_CLOCK_GRAPHICS, NVML_CLOCK_MEM
        return {graphics: 2100, memory: handle.memory[0]}[kind]

    def nvmlDeviceGetMemoryBusWidth(self, handle: Card) -> int:  # noqa: N802 - likewise
        if handle.memory is None:
            raise NvmlFault
        return handle.memory[1]

    def nvmlDeviceGetComputeRunningProcesses(self, handle: Card) -> list[Listed]:  # noqa: N802 - likewise
        return [Listed(pid, held) for pid, held in handle.compute.items()]

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: Card) -> list[Listed]:  # noqa: N802 - likewise
        if handle.graphics is None:
            raise NvmlFault
        return [Listed(pid, held) for pid, held in handle.graphics.items()]


def test_gpus_are_known_by_uuid_and_read_with_their_processes() -> None:
    first = Card(b"GPU-a", 24 * GIB, 9 * GIB, {10: 8 * GIB, 11: None}, {12: GIB, 10: GIB})
    memory = NvmlMemory.open(FakeNvml(first, Card("GPU-b", 24 * GIB, 0)))
    assert memory
    assert [(gpu.id, gpu.index, gpu.total_bytes) for gpu in memory.devices()] == [
        ("GPU-a", 0, 24 * GIB),
        ("GPU-b", 1, 24 * GIB),
    ]
    reading = memory.read(["GPU-a"], [])["GPU-a"]
    assert reading.used_bytes == 9 * GIB
    assert reading.by_pid == {10: 8 * GIB, 11: 0, 12: GIB}
    first.used = GIB
    assert memory.read(["GPU-a", "GPU-gone"], [])["GPU-a"].used_bytes == GIB


@pytest.mark.parametrize(
    ("memory", "sheet"),
    [
        ((9751, 384), 936),
        ((10501, 384), 1008),
        ((14001, 512), 1792),
        ((1215, 5120), 1555),
        (None, None),
        ((0, 0), None),
    ],
)
def test_bandwidth_is_the_memory_clock_over_the_bus(memory: tuple[int, int] | None, sheet: int | None) -> None:
    nvml = NvmlMemory.open(FakeNvml(Card("GPU-a", GIB, 0, memory=memory)))
    assert nvml
    bandwidth = nvml.devices()[0].bandwidth
    assert bandwidth == (sheet and pytest.approx(sheet * 1e9, rel=0.001))


def test_a_gpu_that_is_lost_while_we_run_is_told() -> None:
    card = Card("GPU-a", 24 * GIB, 0)
    memory = NvmlMemory.open(FakeNvml(card))
    assert memory
    card.lost = True
    with pytest.raises(GearshiftError, match="the memory of GPU-a cannot be read: GPU is lost"):
        memory.read(["GPU-a"], [])


def test_a_driver_that_does_not_answer_is_no_gpu() -> None:
    assert NvmlMemory.open(FakeNvml(broken=True)) is None


def test_scripted_gpus_replace_the_boxes_own(tmp_path: Path) -> None:
    control = tmp_path / "control.json"
    memory = open_memory({"GEARSHIFT_FAKE_GPUS": f"2x24GiB@{control}"})
    first, second = (gpu.id for gpu in memory.devices())
    assert memory.devices()[1].total_bytes == 24 * GIB
    assert memory.read([first], [])[first].used_bytes == 0
    control.write_text(json.dumps({"held": {first: {str(os.getpid()): 5, "4194305": 7}}, "residue": {second: 3}}))
    readings = memory.read([first, second], [])
    assert readings[first].by_pid == {os.getpid(): 5}
    assert readings[second].used_bytes == 3
    control.write_text(json.dumps({"held": {first: {"4194305": 7}}, "lingering": True}))
    assert memory.read([first], [])[first].used_bytes == 7


@pytest.mark.parametrize("script", ["two", "2x", "2xmany", "0GiB"])
def test_a_script_that_describes_no_gpus_is_told(script: str) -> None:
    with pytest.raises(GearshiftError, match="does not describe GPUs"):
        FakeMemory.parse(script)


def test_a_box_always_has_a_device() -> None:
    assert open_memory({}, budget_bytes=GIB).devices()
