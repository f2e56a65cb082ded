"""What must be true after a stop: port free, device memory back. Each is awaited, and named if it does not come."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping

from gearshift.domain.device import CPU_DEVICE, DeviceMemory, MemoryReading
from gearshift.domain.errors import GearshiftError
from gearshift.domain.launch import Endpoint
from gearshift.domain.units import format_bytes
from gearshift.hardware import processes
from gearshift.supervisor.memory_return import MemoryVerdict, memory_returned
from gearshift.supervisor.ports import port_free

PORT_DEADLINE_S = 10.0
_FIRST_POLL_S, _SLOWEST_POLL_S = 0.002, 0.1


async def until(condition: Callable[[], bool], deadline_s: float) -> bool:
    """Poll in a thread, fast at first; False when the deadline passed."""
    end, delay = time.monotonic() + deadline_s, _FIRST_POLL_S
    while not await asyncio.to_thread(condition):
        if time.monotonic() >= end:
            return False
        await asyncio.sleep(delay)
        delay = min(delay * 1.3, _SLOWEST_POLL_S)
    return True


async def port_problem(endpoint: Endpoint, deadline_s: float = PORT_DEADLINE_S) -> str | None:
    """Wait for the port to be free; who holds it, if it is not."""
    if await until(lambda: port_free(endpoint.host, endpoint.port), deadline_s):
        return None
    return f"port {endpoint.port} is still held by {processes.listener(endpoint.port) or processes.UNSEEN}"


class MemoryWatch:
    """One launch's devices: read before the launch and before the stop, then awaited."""

    def __init__(self, memory: DeviceMemory, devices: Collection[str], *, deadline_s: float) -> None:
        self._memory = memory
        self._deadline_s = deadline_s
        self._devices = devices
        self._at_start: Mapping[str, MemoryReading] = {}
        self._at_stop: Mapping[str, MemoryReading] = {}

    async def before_launch(self) -> None:
        self._at_start = await self._read((), self._devices)

    async def before_stop(self, pids: Collection[int]) -> None:
        """Host memory is not read: it is freed with its process, and adding up a large one would outlast the stop."""
        gpus = [device for device in self._devices if device != CPU_DEVICE]
        host = {CPU_DEVICE: MemoryReading(CPU_DEVICE, 0, 0)} if CPU_DEVICE in self._devices else {}
        try:
            self._at_stop = {**host, **await self._read(pids, gpus)}
        except GearshiftError:  # a driver in trouble must not keep the engine running
            self._at_stop = self._at_start

    def newcomers(self) -> set[int]:
        """Processes that hold memory now and did not before the launch: all we know of an engine outside our tree."""
        return {
            pid
            for device, reading in self._at_stop.items()
            for pid in reading.by_pid.keys() - self._at_start.get(device, reading).by_pid.keys()
        }

    async def problem(self, tree: Collection[int]) -> str | None:
        """Wait for the memory; what is missing and who holds it, if it does not come back."""
        try:
            return await self._awaited(tree)
        except GearshiftError as error:
            return error.message

    async def _awaited(self, tree: Collection[int]) -> str | None:
        end, delay = time.monotonic() + self._deadline_s, _FIRST_POLL_S
        while missing := await self._missing(tree):
            if time.monotonic() >= end:
                return "; ".join(_sentence(device, verdict) for device, verdict in missing.items())
            await asyncio.sleep(delay)
            delay = min(delay * 1.3, _SLOWEST_POLL_S)
        return None

    async def _missing(self, tree: Collection[int]) -> dict[str, MemoryVerdict]:
        now = await self._read(tree, self._devices)
        verdicts = {
            device: memory_returned(self._at_start.get(device, stopped), stopped, now[device], tree)
            for device, stopped in self._at_stop.items()
            if device in now
        }
        return {device: verdict for device, verdict in verdicts.items() if not verdict.returned}

    async def _read(self, pids: Collection[int], devices: Collection[str]) -> Mapping[str, MemoryReading]:
        """In a thread: a driver in trouble takes seconds to answer."""
        return await asyncio.to_thread(self._memory.read, devices, pids) if devices else {}


def _sentence(device: str, verdict: MemoryVerdict) -> str:
    named = [
        f"pid {pid} ({processes.command_line(pid) or 'gone'}) {format_bytes(count)}"
        for pid, count in verdict.holders.items()
    ]
    who = ", ".join(named) or "no process that the driver names"
    return f"{format_bytes(verdict.missing_bytes)} of {device} did not come back, held by {who}"
