"""How the NVIDIA GPUs of this box are set: the clocks and the power that they are allowed, by UUID."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from gearshift.domain.provenance import GpuSettings

_SM, _MEMORY = 1, 2  # NVML_CLOCK_SM, NVML_CLOCK_MEM
_MILLI = 1000  # NVML speaks of milliwatts


class NvmlSettings(Protocol):
    """The calls of `pynvml` used here; each may raise NVMLError where a card does not support it."""

    NVMLError: type[Exception]

    def nvmlInit(self) -> None: ...  # noqa: N802 - the binding's own names
    def nvmlDeviceGetCount(self) -> int: ...  # noqa: N802 - likewise
    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any: ...  # noqa: N802 - likewise
    def nvmlDeviceGetUUID(self, handle: Any) -> str | bytes: ...  # noqa: N802 - likewise
    def nvmlDeviceGetMaxClockInfo(self, handle: Any, kind: int) -> int: ...  # noqa: N802 - likewise
    def nvmlDeviceGetApplicationsClock(self, handle: Any, kind: int) -> int: ...  # noqa: N802 - likewise
    def nvmlDeviceGetPowerManagementLimit(self, handle: Any) -> int: ...  # noqa: N802 - likewise
    def nvmlDeviceGetPowerManagementDefaultLimit(self, handle: Any) -> int: ...  # noqa: N802 - likewise


def gpu_settings(nvml: NvmlSettings | None = None) -> Mapping[str, GpuSettings]:
    """Every GPU's settings by its UUID; empty where no driver answers. Takes a few milliseconds and never raises."""
    if nvml is None:
        import pynvml  # type: ignore[import-untyped]  # noqa: PLC0415 - no stubs; 17 ms that most verbs need not pay

        nvml = pynvml
    try:
        nvml.nvmlInit()
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        return {_text(nvml.nvmlDeviceGetUUID(handle)): _settings(nvml, handle) for handle in handles}
    except nvml.NVMLError:
        return {}


def _settings(nvml: NvmlSettings, handle: Any) -> GpuSettings:
    def ask(setting: Callable[[], int]) -> int | None:
        try:
            return setting()
        except nvml.NVMLError:  # not supported by this card
            return None

    def watts(setting: Callable[[Any], int]) -> float | None:
        found = ask(lambda: setting(handle))
        return None if found is None else found / _MILLI

    return GpuSettings(
        max_clock_mhz=ask(lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, _SM)),
        max_memory_clock_mhz=ask(lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, _MEMORY)),
        application_clock_mhz=ask(lambda: nvml.nvmlDeviceGetApplicationsClock(handle, _SM)),
        application_memory_clock_mhz=ask(lambda: nvml.nvmlDeviceGetApplicationsClock(handle, _MEMORY)),
        power_limit_w=watts(nvml.nvmlDeviceGetPowerManagementLimit),
        default_power_limit_w=watts(nvml.nvmlDeviceGetPowerManagementDefaultLimit),
    )


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
