"""Reload is a diff: what the new file leaves alone lives on, and a file that is wrong changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from gearshift.config import LoadedConfig
from gearshift.control.loop import Control
from gearshift.control.preparation import Preparation
from gearshift.domain.admin import ReloadReport
from gearshift.domain.errors import ConfigError, GearshiftError, Problem
from gearshift.domain.settings import Settings
from gearshift.scheduler import World


class Reloading:
    """Loads the file anew and hands the difference to the loop; one reload at a time."""

    def __init__(
        self, control: Control, preparation: Preparation, file: Path | None, load: Callable[[], LoadedConfig]
    ) -> None:
        self.file = file
        self._control = control
        self._preparation = preparation
        self._load = load  # blocking; raises ConfigError with every problem
        self._turn = asyncio.Lock()

    async def reload(self) -> ReloadReport:
        """Never raises for what is wrong with the file: that is in the report."""
        async with self._turn:
            try:
                loaded = await asyncio.to_thread(self._load)
                world = await asyncio.to_thread(self._preparation.world, loaded.settings)
            except ConfigError as error:
                return self._tell(ReloadReport(applied=False, problems=error.problems))
            except (GearshiftError, OSError) as error:
                return self._tell(ReloadReport(applied=False, problems=(Problem(str(error), str(self.file)),)))
            report = difference(self._control.settings, loaded.settings, self._control.world, world, loaded.warnings)
            self._control.configure(loaded.settings, world)
            return self._tell(report)

    def _tell(self, report: ReloadReport) -> ReloadReport:
        self._control.journal.add(
            "config.reloaded" if report.applied else "config.refused",
            added=list(report.added),
            removed=list(report.removed),
            changed=list(report.changed),
            problems=[str(problem) for problem in report.problems],
        )
        return report


def difference(
    old: Settings, new: Settings, before: World, after: World, warnings: tuple[Problem, ...]
) -> ReloadReport:
    """What a reload does, variant by variant; what needs a restart of the server is named and left as it is."""
    common = [name for name in after.profiles if name in before.profiles]
    changed = tuple(name for name in common if not after.profiles[name].starts_like(before.profiles[name]))
    fixed = tuple(
        Problem(f"changed to {getattr(new, field)!r}, which takes a restart of the server", key, severity="warning")
        for field, key in (("host", "listen"), ("port", "listen"), ("memory_bytes", "memory"))
        if getattr(old, field) != getattr(new, field)
    )
    return ReloadReport(
        applied=True,
        added=tuple(name for name in after.profiles if name not in before.profiles),
        removed=tuple(name for name in before.profiles if name not in after.profiles),
        changed=changed,
        untouched=tuple(name for name in common if name not in changed),
        problems=(*fixed, *warnings),
    )
