"""Whether a stopped engine's device memory is back. Pure: readings in, verdict out."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from gearshift.domain.device import MemoryReading
from gearshift.domain.units import MIB

RESIDUE_BYTES = 128 * MIB  # what a driver may keep of a device once a process is gone; below it nothing is missing


@dataclass(frozen=True, slots=True)
class MemoryVerdict:
    """``missing_bytes`` is what did not come back; ``holders`` are processes of the tree that still hold some."""

    returned: bool
    missing_bytes: int
    holders: dict[int, int]


def memory_returned(
    at_start: MemoryReading,
    at_stop: MemoryReading,
    now: MemoryReading,
    tree: Collection[int],
    *,
    residue_bytes: int = RESIDUE_BYTES,
) -> MemoryVerdict:
    """Compare a device before the launch, before the stop signal, and now.

    What is expected now is what was in use before the stop less what the tree held. Where the driver does not say
    who holds what, it is what was in use before the launch. Either way, what other processes took or gave back since
    is not the tree's: it is added to the expectation.
    """
    holders = {pid: now.by_pid[pid] for pid in tree if now.by_pid.get(pid, 0) > 0}
    held = sum(count for pid, count in at_stop.by_pid.items() if pid in tree)
    before, expected = (at_stop, at_stop.used_bytes - held) if held else (at_start, at_start.used_bytes)
    excess = now.used_bytes - expected - _others_growth(before, now, tree)
    missing = max(excess if excess > residue_bytes else 0, sum(holders.values()))
    return MemoryVerdict(returned=missing == 0, missing_bytes=missing, holders=holders)


def _others_growth(before: MemoryReading, now: MemoryReading, tree: Collection[int]) -> int:
    others = (now.by_pid.keys() | before.by_pid.keys()) - set(tree)
    return sum(now.by_pid.get(pid, 0) - before.by_pid.get(pid, 0) for pid in others)
