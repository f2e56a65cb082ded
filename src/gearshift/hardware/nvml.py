"""NVIDIA GPUs through NVML; the only module that knows the binding."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol, Self

from gearshift.domain.device import Device, MemoryReading
from gearshift.domain.errors import GearshiftError

_MEMORY_CLOCK = 2  # NVML_CLOCK_MEM
_TRANSFERS_PER_CYCLE = 2  # GDDR and HBM at the clock NVML reports
_MHZ, _BITS = 1_000_000, 8


class Nvml(Protocol):
    """The calls of `pynvml` used here; a handle is opaque."""

    NVMLError: type[Exception]

    def nvmlInit(self) -> None: ...  # noqa: N802 - the binding's own names
    def nvmlDeviceGetCount(self) -> int: ...  # noqa: N802 - likewise
    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any: ...  # noqa: N802 - likewise
    def nvmlDeviceGetUUID(self, handle: Any) -> str | bytes: ...  # noqa: N802 - likewise
    def nvmlDeviceGetName(self, handle: Any) -> str | bytes: ...  # noqa: N802 - likewise
    def nvmlDeviceGetMemoryInfo(self, handle: Any) -> Any: ...  # noqa: N802 - likewise
    def nvmlDeviceGetMaxClockInfo(self, handle: Any, kind: int) -> int: ...  # noqa: N802 - likewise
    def nvmlDeviceGetMemoryBusWidth(self, handle: Any) -> int: ...  # noqa: N802 - likewise
    def nvmlDeviceGetComputeRunningProcesses(self, handle: Any) -> Iterable[Any]: ...  # noqa: N802 - likewise
    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: Any) -> Iterable[Any]: ...  # noqa: N802 - likewise


def open_nvml() -> NvmlMemory | None:
    """The box's NVIDIA GPUs, or None where there is no driver that answers."""
    import pynvml  # type: ignore[import-untyped]  # noqa: PLC0415 - no stubs; 17 ms that most verbs need not pay

    return NvmlMemory.open(pynvml)


class NvmlMemory:
    """Memory of every NVIDIA GPU, by UUID, with what each process holds of it."""

    def __init__(self, nvml: Nvml) -> None:
        """``nvml`` is initialised. Device facts are read once: they do not change while a process lives."""
        self._nvml = nvml
        self._handles: dict[str, Any] = {}
        self._devices = tuple(self._describe(index) for index in range(nvml.nvmlDeviceGetCount()))

    @classmethod
    def open(cls, nvml: Nvml) -> Self | None:
        """Initialise NVML; None where it cannot be (no driver, wrong version, no permission)."""
        try:
            nvml.nvmlInit()
            return cls(nvml)
        except nvml.NVMLError:
            return None

    def _describe(self, index: int) -> Device:
        handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
        uuid = _text(self._nvml.nvmlDeviceGetUUID(handle))
        self._handles[uuid] = handle
        total = int(self._nvml.nvmlDeviceGetMemoryInfo(handle).total)
        name = _text(self._nvml.nvmlDeviceGetName(handle))
        return Device(uuid, index, name, total, self._bandwidth(handle))

    def _bandwidth(self, handle: Any) -> float | None:
        """Peak bytes/s: largest memory clock, both edges, over the bus. None where the card does not say."""
        try:
            clock = self._nvml.nvmlDeviceGetMaxClockInfo(handle, _MEMORY_CLOCK)
            bits = self._nvml.nvmlDeviceGetMemoryBusWidth(handle)
        except self._nvml.NVMLError:
            return None
        return clock * _MHZ * _TRANSFERS_PER_CYCLE * bits / _BITS or None

    def devices(self) -> tuple[Device, ...]:
        return self._devices

    def read(self, devices: Collection[str], pids: Collection[int]) -> Mapping[str, MemoryReading]:  # noqa: ARG002 - NVML lists every process itself
        return {uuid: self._reading(uuid, handle) for uuid, handle in self._handles.items() if uuid in devices}

    def _reading(self, uuid: str, handle: Any) -> MemoryReading:
        try:
            memory = self._nvml.nvmlDeviceGetMemoryInfo(handle)
        except self._nvml.NVMLError as error:
            msg = f"the memory of {uuid} cannot be read: {error}"
            raise GearshiftError(msg, hint="look at nvidia-smi and the kernel log: the GPU may be lost") from error
        return MemoryReading(uuid, int(memory.total), int(memory.used), self._by_pid(handle))

    def _by_pid(self, handle: Any) -> dict[int, int]:
        """Largest figure per process: one with a graphics and a compute context is listed twice with one total."""
        held: dict[int, int] = {}
        for listing in (
            self._nvml.nvmlDeviceGetComputeRunningProcesses,
            self._nvml.nvmlDeviceGetGraphicsRunningProcesses,
        ):
            for process in self._list(listing, handle):
                # None where the driver may not say (WSL, some containers): the process counts, its bytes are unknown.
                held[process.pid] = max(held.get(process.pid, 0), int(process.usedGpuMemory or 0))
        return held

    def _list(self, listing: Any, handle: Any) -> list[Any]:
        try:
            return list(listing(handle))
        except self._nvml.NVMLError:  # graphics processes are not supported on every card
            return []


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
