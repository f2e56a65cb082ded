"""Changes of phase: told to the journal and the log, and to whoever waits for one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import structlog

from gearshift.control.journal import Journal
from gearshift.scheduler import Phase, Slot

log = structlog.get_logger(__name__)


class PhaseWatch:
    """Compares the scheduler's slots with how they were at the last look."""

    def __init__(self, slots: Mapping[str, Slot], journal: Journal) -> None:
        self._phases: dict[str, Phase] = {variant: slot.phase for variant, slot in slots.items()}
        self._journal = journal
        self._changed = asyncio.Event()

    def look(self, slots: Mapping[str, Slot]) -> None:
        """Tell what has changed since the last look."""
        moved = [slot for slot in slots.values() if self._phases.get(slot.id) is not slot.phase]
        gone = self._phases.keys() - slots.keys() if len(self._phases) > len(slots) else ()
        if not moved and not gone:
            return
        for variant in gone:
            del self._phases[variant]
            self._journal.add("variant.state", variant=variant, state="removed")
        for slot in moved:
            self._phases[slot.id] = slot.phase
            self._journal.add("variant.state", variant=slot.id, state=str(slot.phase))
            log.info("variant", variant=slot.id, state=str(slot.phase))
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def until(self, condition: Callable[[], bool], timeout_s: float | None = None) -> None:
        """Wait until phases have changed to where ``condition`` holds, or the time is up."""
        try:
            async with asyncio.timeout(timeout_s):
                while not condition():
                    await self._changed.wait()
        except TimeoutError:
            return
