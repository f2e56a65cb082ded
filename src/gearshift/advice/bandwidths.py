"""How fast the memories of this box are: measured once, kept in one small file of the state folder, found again."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import structlog

from gearshift.domain.device import CPU_DEVICE, Device, MemoryReading
from gearshift.domain.errors import GearshiftError
from gearshift.domain.units import GIB, format_bytes
from gearshift.hardware import core_count, cpu_name, host_memory
from gearshift.hardware.gpu_bandwidth import measure_gpu_bandwidth
from gearshift.hardware.host_bandwidth import measure_host_bandwidth
from gearshift.planner import Gpu, MeasuredBandwidth, card_of
from gearshift.store.files import replace_file

log = structlog.get_logger(__name__)

HOW = "gearshift bench bandwidth"  # what measures, for sentences that say so
_AN_ENGINE = GIB  # a process that holds as much of a card is no desktop's


def host_device() -> Device:
    """The host's memory under the name that its measurement is kept by: another processor or RAM is another one."""
    total, cores = host_memory().total_bytes, core_count()
    name = f"{cpu_name()}, {cores} core{'s' if cores != 1 else ''}, {total / GIB:.0f} GiB"
    return Device(CPU_DEVICE, None, name, total)


class Bandwidths:
    """Read once, written at each measurement. A file that is damaged or cannot be written costs figures, no verb."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = _read(path)

    def of(self, device: Device) -> MeasuredBandwidth | None:
        """What was measured of a device, None where nothing was."""
        return self._known.get(_key(device))

    def keep(self, device: Device, measured: MeasuredBandwidth) -> None:
        """Remember it. Blocking: writes the file whole, atomically."""
        self._known[_key(device)] = measured
        document = {key: asdict(known) for key, known in self._known.items()}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self._path, json.dumps(document, indent=1))
        except OSError as error:
            log.warning("bandwidth not kept", file=str(self._path), cause=error.strerror)

    def card(self, device: Device) -> Gpu | None:
        """What is known of a device of this box, from wherever. The host's memory has no table, so it is measured."""
        known = host_device() if device.id == CPU_DEVICE else device
        return card_of(known, self.of(known))


def card_here(kept: Bandwidths, devices: Sequence[Device], wanted: str | None = None) -> Gpu | None:
    """The device that a ceiling is of: the one ``wanted`` by id, else the box's first; None where it is not here."""
    device = next((device for device in devices if wanted in {None, device.id}), None)
    return kept.card(device) if device else None


def measured_now(device: Device, env: Mapping[str, str]) -> MeasuredBandwidth:
    """Measure a device that nothing else uses; takes about two seconds. Raises GearshiftError saying why it cannot."""
    if device.id != CPU_DEVICE:
        card = measure_gpu_bandwidth(device.id, env)
        return MeasuredBandwidth(card.bytes_s, card.method, time.time())
    host = measure_host_bandwidth()
    if not host.quiet:
        msg = f"the memory's bandwidth was not measured: other work took {1 - host.core_share:.0%} of the cores"
        raise GearshiftError(msg, hint=f"when the box is idle: {HOW}")
    return MeasuredBandwidth(host.bytes_s, host.method, time.time())


def occupied(reading: MemoryReading, ours: Collection[int]) -> str | None:
    """Why a card cannot be measured now: an engine is there. What a desktop holds is no reason."""
    for pid, held in reading.by_pid.items():
        if pid in ours or held >= _AN_ENGINE:
            return f"pid {pid} holds {format_bytes(held)} of it: unload it and try again"
    if reading.used_bytes > reading.total_bytes // 4:  # a driver that names no process
        return f"{format_bytes(reading.used_bytes)} of it are in use: unload what holds them and try again"
    return None


def _key(device: Device) -> str:
    return device.name if device.id == CPU_DEVICE else device.id


def _read(path: Path) -> dict[str, MeasuredBandwidth]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return {key: _measured(entry) for key, entry in document.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
        log.warning("bandwidths not read", file=str(path), cause=str(error))
        return {}


def _measured(entry: Mapping[str, object]) -> MeasuredBandwidth:
    rate, at = entry["bytes_s"], entry["at"]
    if not isinstance(rate, int | float) or not isinstance(at, int | float) or rate <= 0:
        msg = f"bytes_s {rate!r} and at {at!r} must be numbers"
        raise ValueError(msg)
    return MeasuredBandwidth(float(rate), str(entry["method"]), float(at))
