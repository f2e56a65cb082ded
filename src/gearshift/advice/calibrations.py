"""What earlier starts taught about plans, one entry a launch and engine build, in a small file of the state folder."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import structlog

from gearshift.planner import Calibration
from gearshift.store.files import replace_file

log = structlog.get_logger(__name__)

KEPT = 200  # launches remembered; the oldest go first


class Calibrations:
    """Read once, written at each change. A file that is damaged or cannot be written costs precision, nothing else."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = _read(path)
        self._keeping = threading.Lock()  # two variants may become ready at once

    def of(self, start_key: str) -> Calibration | None:
        """What the last start under this key (`Variant.start_key`) showed, or None."""
        return self._known.get(start_key)

    def keep(self, start_key: str, calibration: Calibration) -> None:
        """Remember it for the next plan. Blocking: writes the file whole, atomically. Any thread may call it."""
        with self._keeping:
            self._keep(start_key, calibration)

    def _keep(self, start_key: str, calibration: Calibration) -> None:
        self._known.pop(start_key, None)
        self._known[start_key] = calibration
        for oldest in list(self._known)[:-KEPT]:
            del self._known[oldest]
        document = {digest: known.to_json() for digest, known in self._known.items()}
        try:
            replace_file(self._path, json.dumps(document))
        except OSError as error:
            log.warning("calibration not kept", file=str(self._path), cause=error.strerror)


def _read(path: Path) -> dict[str, Calibration]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return {digest: Calibration.from_json(entry) for digest, entry in document.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError) as error:
        log.warning("calibrations not read", file=str(path), cause=str(error))
        return {}
