"""What the NVIDIA GPUs of this box are doing: clocks, power, temperature, memory, and what slows them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from gearshift.domain.telemetry import GpuReading, Telemetry

# nvmlClocksEventReasons (nvml.h): what holds the clocks below what was asked for. Idle and the users' own settings
# (applications clocks, sync boost) are no fault of a measurement and are left out.
_REASONS = {
    0x0000000000000004: "power",  # SwPowerCap
    0x0000000000000008: "hardware",  # HwSlowdown
    0x0000000000000020: "thermal",  # SwThermalSlowdown
    0x0000000000000040: "thermal",  # HwThermalSlowdown
    0x0000000000000080: "power",  # HwPowerBrakeSlowdown
}
_SM, _MEMORY = 1, 2  # NVML_CLOCK_SM, NVML_CLOCK_MEM
_CORE = 0  # NVML_TEMPERATURE_GPU
_MILLI = 1000  # NVML speaks of milliwatts and millijoules


class NvmlGauges(Protocol):
    """The calls of `pynvml` used here; each may raise NVMLError where a card does not support it."""

    NVMLError: type[Exception]

    def nvmlInit(self) -> None: ...  # noqa: N802 - the binding's own names
    def nvmlDeviceGetCount(self) -> int: ...  # noqa: N802 - likewise
    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any: ...  # noqa: N802 - likewise
    def nvmlDeviceGetUUID(self, handle: Any) -> str | bytes: ...  # noqa: N802 - likewise
    def nvmlDeviceGetClockInfo(self, handle: Any, kind: int) -> int: ...  # noqa: N802 - likewise
    def nvmlDeviceGetPowerUsage(self, handle: Any) -> int: ...  # noqa: N802 - likewise
    def nvmlDeviceGetTemperature(self, handle: Any, sensor: int) -> int: ...  # noqa: N802 - likewise
    def nvmlDeviceGetMemoryInfo(self, handle: Any) -> Any: ...  # noqa: N802 - likewise
    def nvmlDeviceGetTotalEnergyConsumption(self, handle: Any) -> int: ...  # noqa: N802 - likewise
    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: Any) -> int: ...  # noqa: N802 - likewise


def open_telemetry() -> Telemetry | None:
    """The gauges of this box's GPUs, or None where there is none."""
    import pynvml  # type: ignore[import-untyped]  # noqa: PLC0415 - no stubs; 17 ms that most verbs need not pay

    return NvmlTelemetry.open(pynvml)


class NvmlTelemetry:
    """Reads every GPU; a gauge that a card lacks is None, not an error."""

    def __init__(self, nvml: NvmlGauges) -> None:
        """``nvml`` is initialised."""
        self._nvml = nvml
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        self._handles = {_text(nvml.nvmlDeviceGetUUID(handle)): handle for handle in handles}

    @classmethod
    def open(cls, nvml: NvmlGauges) -> NvmlTelemetry | None:
        """Initialise NVML; None where it cannot be, or where it knows no GPU."""
        try:
            nvml.nvmlInit()
            telemetry = cls(nvml)
        except nvml.NVMLError:
            return None
        return telemetry if telemetry._handles else None

    def read(self) -> Sequence[GpuReading]:
        return [self._reading(uuid, handle) for uuid, handle in self._handles.items()]

    def _reading(self, uuid: str, handle: Any) -> GpuReading:
        nvml, ask = self._nvml, self._ask
        power = ask(lambda: nvml.nvmlDeviceGetPowerUsage(handle))
        energy = ask(lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle))
        return GpuReading(
            device=uuid,
            clock_mhz=ask(lambda: nvml.nvmlDeviceGetClockInfo(handle, _SM)),
            memory_clock_mhz=ask(lambda: nvml.nvmlDeviceGetClockInfo(handle, _MEMORY)),
            power_w=None if power is None else power / _MILLI,
            temperature_c=ask(lambda: nvml.nvmlDeviceGetTemperature(handle, _CORE)),
            used_bytes=ask(lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).used)),
            energy_j=None if energy is None else energy / _MILLI,
            throttle=reasons(ask(lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)) or 0),
        )

    def _ask(self, gauge: Callable[[], int]) -> int | None:
        try:
            return gauge()
        except self._nvml.NVMLError:  # not supported by this card, or the card is gone
            return None


def reasons(mask: int) -> tuple[str, ...]:
    """The words for a mask of NVML's clock event reasons, each once."""
    return tuple(dict.fromkeys(word for bit, word in _REASONS.items() if mask & bit))


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
