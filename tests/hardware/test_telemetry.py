"""GPU gauges and settings against a binding that is shaped like NVML's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from gearshift.domain.provenance import GpuSettings
from gearshift.domain.telemetry import GpuReading
from gearshift.hardware import gpu_settings
from gearshift.hardware.telemetry import NvmlTelemetry, reasons


class NvmlFault(Exception):  # noqa: N818 - NVML's error under a short name
    pass


@dataclass
class Memory:
    used: int


class Binding:
    """One card; ``lacks`` are the gauges that it does not support."""

    NVMLError: type[Exception] = NvmlFault

    def __init__(self, *, lacks: frozenset[str] = frozenset(), cards: int = 1, driver: bool = True) -> None:
        self.lacks, self.cards, self.driver = lacks, cards, driver

    def _gauge(self, name: str, value: Any) -> Any:
        if name in self.lacks:
            raise NvmlFault
        return value

    def nvmlInit(self) -> None:  # noqa: N802 - the binding's own names
        if not self.driver:
            raise NvmlFault

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802 - likewise
        return self.cards

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802 - likewise
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> bytes:  # noqa: N802 - likewise
        return b"GPU-%d" % handle

    def nvmlDeviceGetClockInfo(self, handle: int, kind: int) -> int:  # noqa: ARG002, N802 - likewise
        return int(self._gauge("clock", {1: 1700, 2: 9500}[kind]))

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:  # noqa: ARG002, N802 - likewise
        return int(self._gauge("power", 229_500))

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:  # noqa: ARG002, N802 - likewise
        return int(self._gauge("temperature", 71))

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Memory:  # noqa: ARG002, N802 - likewise
        return Memory(int(self._gauge("memory", 23 * 1024**3)))

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: int) -> int:  # noqa: ARG002, N802 - likewise
        return int(self._gauge("energy", 5_000_000))

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: int) -> int:  # noqa: ARG002, N802 - likewise
        return int(self._gauge("throttle", 0x24))

    def nvmlDeviceGetMaxClockInfo(self, handle: int, kind: int) -> int:  # noqa: ARG002, N802 - likewise
        return int(self._gauge("clock", {1: 2100, 2: 9751}[kind]))

    def nvmlDeviceGetApplicationsClock(self, handle: int, kind: int) -> int:  # noqa: ARG002, N802 - likewise
        return int(self._gauge("application clock", {1: 1410, 2: 9501}[kind]))

    def nvmlDeviceGetPowerManagementLimit(self, handle: int) -> int:  # noqa: ARG002, N802 - likewise
        return int(self._gauge("power", 250_000))

    def nvmlDeviceGetPowerManagementDefaultLimit(self, handle: int) -> int:  # noqa: ARG002, N802 - likewise
        return int(self._gauge("power", 300_000))


def test_every_gauge_is_read_in_its_unit() -> None:
    telemetry = NvmlTelemetry.open(Binding())
    assert telemetry is not None
    expected = GpuReading("GPU-0", 1700, 9500, 229.5, 71, 23 * 1024**3, 5000.0, ("power", "thermal"))
    assert list(telemetry.read()) == [expected]


def test_a_gauge_that_a_card_lacks_is_unknown_and_not_zero() -> None:
    lacks = frozenset({"clock", "power", "temperature", "memory", "energy", "throttle"})
    telemetry = NvmlTelemetry.open(Binding(lacks=lacks))
    assert telemetry is not None
    assert list(telemetry.read()) == [GpuReading("GPU-0")]


def test_without_a_driver_or_a_card_there_is_no_telemetry() -> None:
    assert NvmlTelemetry.open(Binding(driver=False)) is None
    assert NvmlTelemetry.open(Binding(cards=0)) is None


@pytest.mark.parametrize(
    ("mask", "words"),
    [(0, ()), (0x1, ()), (0x2, ()), (0x4, ("power",)), (0x84, ("power",)), (0x68, ("hardware", "thermal"))],
)
def test_idle_and_the_users_own_clocks_are_no_throttling(mask: int, words: tuple[str, ...]) -> None:
    assert reasons(mask) == words


def test_the_clocks_and_the_power_that_a_card_is_allowed_are_read_in_their_units() -> None:
    assert gpu_settings(Binding(cards=2)) == {
        "GPU-0": GpuSettings(2100, 9751, 1410, 9501, 250.0, 300.0),
        "GPU-1": GpuSettings(2100, 9751, 1410, 9501, 250.0, 300.0),
    }


def test_a_setting_that_a_card_does_not_tell_is_unknown() -> None:
    """Cards for games have no clocks for applications."""
    told = gpu_settings(Binding(lacks=frozenset({"application clock"})))
    assert told == {"GPU-0": GpuSettings(2100, 9751, None, None, 250.0, 300.0)}
    assert gpu_settings(Binding(lacks=frozenset({"clock", "application clock", "power"}))) == {"GPU-0": GpuSettings()}


def test_without_a_driver_no_setting_is_known() -> None:
    assert gpu_settings(Binding(driver=False)) == {}
