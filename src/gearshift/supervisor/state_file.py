"""The state file: which processes are ours, so that they can be found after a Gearshift that was killed."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import structlog

from gearshift.domain.errors import GearshiftError
from gearshift.domain.paths import Paths
from gearshift.store.files import replace_file

log = structlog.get_logger(__name__)

_VERSION = 1
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Member:
    """One process of a tree; ``start`` in clock ticks since boot tells it from a later one with its pid."""

    pid: int
    start: int
    session: int
    command: str


@dataclass(frozen=True, slots=True)
class ChildRecord:
    """One launch as the state file keeps it."""

    marker: str
    variant: str
    port: int
    members: tuple[Member, ...]


def marker_prefix(paths: Paths) -> str:
    """What the environment marker of every engine of this state folder begins with."""
    return hashlib.sha256(str(paths.state.absolute()).encode()).hexdigest()[:12] + "-"


def unusable_state(paths: Paths, why: str | None) -> GearshiftError:
    """The error of a state folder that cannot be written; ``why`` is the system's reason."""
    return GearshiftError(
        f"the state folder {paths.state} cannot be used: {why}",
        hint="point GEARSHIFT_HOME at a folder on a disk with room that this user may write to",
    )


class StateFile:
    """Written whole and renamed into place. A disk that is full costs the record, never the engines."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last: tuple[ChildRecord, ...] | None = None
        self._writing = threading.Lock()  # the refreshing thread and the end of the launcher

    def write(self, records: Iterable[ChildRecord]) -> bool:
        """Write if anything changed; False when it could not be."""
        children = tuple(records)
        with self._writing:
            return children == self._last or self._write(children)

    def _write(self, children: tuple[ChildRecord, ...]) -> bool:
        document = {
            "version": _VERSION,
            "boot": boot_id(),
            "gearshift": os.getpid(),
            "written": time.time(),
            "children": [asdict(child) for child in children],
        }
        try:
            replace_file(self._path, json.dumps(document, indent=1), durable=False)  # of this boot only
        except OSError as error:
            log.warning("state file not written", path=str(self._path), cause=error.strerror)
            return False
        self._last = children
        return True

    def read(self) -> Sequence[ChildRecord]:
        """What the last Gearshift left; nothing when there is no file, it is torn, or from before a reboot."""
        try:
            document = json.loads(self._path.read_text())
            if document["boot"] != boot_id() or document["version"] != _VERSION:
                return ()
            return tuple(_record(child) for child in document["children"])
        except FileNotFoundError:
            return ()
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("state file not readable; engines are looked for by their marker alone", cause=str(error))
            return ()


def _record(child: dict[str, Any]) -> ChildRecord:
    members = tuple(Member(**member) for member in child["members"])
    return ChildRecord(child["marker"], child["variant"], child["port"], members)


def boot_id() -> str:
    """Pids and start times mean nothing across boots."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""
