"""Bandwidth of the host's memory, by reading: what all cores together stream of buffers that no cache holds."""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gearshift.domain.errors import GearshiftError
from gearshift.domain.units import KIB, MIB, format_bytes
from gearshift.hardware.host import host_memory

_SCAN = 32 * MIB  # read in one call: a few milliseconds, and little of it is Python
_LEAST = 512 * MIB
_TIMES_CACHES = 8  # what is read again was not read for eight cachefuls
_CACHES_UNTOLD = 64 * MIB
_AFFORDABLE = 4  # a quarter of the RAM that is free
_SECONDS, _WINDOW_S = 1.0, 0.05
_QUIET = 0.9
_ABSENT = 0  # a byte that the buffers do not hold, so that a search for it reads all of them


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a thread had done at one moment: seconds on the wall and on a core, bytes read."""

    at: float
    cpu_s: float
    read: int


Track = Sequence[Stamp]  # one thread's, in order of time


@dataclass(frozen=True, slots=True)
class HostBandwidth:
    """The best stretch of the measurement, bytes/s; ``core_share`` is how much of their cores the threads had then."""

    bytes_s: float
    core_share: float
    threads: int
    buffer_bytes: int

    @property
    def quiet(self) -> bool:
        """Whether nothing else took the cores; otherwise the figure is too low for a ceiling."""
        return self.core_share >= _QUIET

    @property
    def method(self) -> str:
        reads = f"{self.threads} thread{'s' if self.threads != 1 else ''} reading {format_bytes(self.buffer_bytes)}"
        return f"{reads}, best {_WINDOW_S * 1000:.0f} ms"


def measure_host_bandwidth(*, seconds: float = _SECONDS, cores: Collection[int] | None = None) -> HostBandwidth:
    """Read for about ``seconds`` with one thread on each core (default: all that we may use), plus filling buffers.

    Raises GearshiftError where there is too little memory free for buffers that no cache holds.
    """
    chosen = sorted(cores or os.sched_getaffinity(0))
    each = _buffer_bytes(len(chosen))
    ready = threading.Barrier(len(chosen))
    with ThreadPoolExecutor(len(chosen)) as pool:
        tracks = list(pool.map(lambda core: _read_on(core, each, ready, seconds), chosen))
    rate, share = best_stretch(tracks, _WINDOW_S)
    return HostBandwidth(rate, share, len(chosen), each * len(chosen))


def best_stretch(tracks: Sequence[Track], window_s: float) -> tuple[float, float]:
    """The highest rate of all threads together over ``window_s`` in which all read, and their share of a core then.

    Between two stamps a thread is taken to read evenly. Where all read for less, that is the window.
    """
    first, last = max(track[0].at for track in tracks), min(track[-1].at for track in tracks)
    window = min(window_s, last - first)
    steps = int((last - first - window) / (window / 2)) + 1
    return max(_over(tracks, first + step * window / 2, window) for step in range(steps))


def cache_bytes(cpus: Path = Path("/sys/devices/system/cpu")) -> int | None:
    """All last-level caches of the box together; None where the kernel does not tell."""
    found: dict[tuple[int, str], int] = {}
    for cache in cpus.glob("cpu[0-9]*/cache/index*"):
        with suppress(OSError, ValueError):
            level, shared = int((cache / "level").read_text()), (cache / "shared_cpu_list").read_text()
            found[level, shared] = int((cache / "size").read_text().strip().removesuffix("K")) * KIB
    last = max((level for level, _ in found), default=0)
    return sum(size for (level, _), size in found.items() if level == last) or None


def _buffer_bytes(threads: int) -> int:
    wanted = max(_LEAST, _TIMES_CACHES * (cache_bytes() or _CACHES_UNTOLD))
    free = host_memory().available_bytes
    if wanted > free // _AFFORDABLE:
        msg = f"measuring the memory's bandwidth takes {format_bytes(wanted)}, a quarter of the RAM that has to be free"
        raise GearshiftError(msg, hint=f"{format_bytes(free)} are free: unload something and try again")
    return -(-wanted // threads // _SCAN) * _SCAN


def _read_on(core: int, size: int, ready: threading.Barrier, seconds: float) -> Track:
    """Fill a buffer next to the core and read it in turns; pages that were never written would all be one page."""
    with suppress(OSError):  # a core that went away: the scheduler places us
        os.sched_setaffinity(0, {core})
    buffer = mmap.mmap(-1, size)
    with suppress(OSError, AttributeError):  # a kernel without huge pages: reads then wait for the page tables more
        buffer.madvise(mmap.MADV_HUGEPAGE)
    held = (ctypes.c_char * size).from_buffer(buffer)
    start = ctypes.addressof(held)
    ctypes.memset(start, _ABSENT + 1, size)
    scan = _scanner()
    ready.wait()
    stamps, until = [Stamp(time.perf_counter(), time.thread_time(), 0)], time.perf_counter() + seconds
    while stamps[-1].at < until:
        read = stamps[-1].read
        scan(start + read % size)
        stamps.append(Stamp(time.perf_counter(), time.thread_time(), read + _SCAN))
    return stamps


def _scanner() -> Callable[[int], object]:
    """Reads `_SCAN` bytes from an address on. The C library's search uses wide loads, and ctypes lets go of the GIL."""
    memchr = ctypes.CDLL(None).memchr
    memchr.restype, memchr.argtypes = ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
    return lambda address: memchr(address, _ABSENT, _SCAN)


def _over(tracks: Sequence[Track], start: float, window: float) -> tuple[float, float]:
    read, cpu = 0.0, 0.0
    for track in tracks:
        (read_a, cpu_a), (read_b, cpu_b) = _at(track, start), _at(track, start + window)
        read, cpu = read + read_b - read_a, cpu + cpu_b - cpu_a
    return read / window, cpu / window / len(tracks)


def _at(track: Track, moment: float) -> tuple[float, float]:
    """Bytes read and seconds on a core up to a moment, between the two stamps around it."""
    after = min(max(bisect_right(track, moment, key=lambda stamp: stamp.at), 1), len(track) - 1)
    one, two = track[after - 1], track[after]
    part = min((moment - one.at) / (two.at - one.at), 1.0)
    return one.read + part * (two.read - one.read), one.cpu_s + part * (two.cpu_s - one.cpu_s)
