"""Imported results in the store, beside our own and under their own tool's name."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from gearshift.bench.importers.imported import Imported, ImportedRow
from gearshift.store import CellRecord, ExperimentRecord, Measurements


def keep(result: Imported, measurements: Measurements, *, file: Path, at: float) -> int:
    """The stored experiment's id; ``at`` is unix time. A row is valid when no invariant of its file failed."""
    record = ExperimentRecord(
        name="import",
        started=at,
        target={"file": file.name, "conditions": dict(result.conditions)},
        plan={"definitions": dict(result.definitions)},
        model=result.model,
        tool=result.tool,
        tool_version=result.tool_version,
    )
    number = measurements.begin_experiment(record)
    sound = not any(check.ok is False for check in result.invariants)
    for row in result.rows:
        measurements.add_cell(number, _cell(row, valid=sound))
    outcome = {"invariants": result.to_json()["invariants"], "notes": list(result.notes)}
    measurements.end_experiment(number, ended=at, state="done", outcome=outcome)
    return number


def _cell(row: ImportedRow, *, valid: bool) -> CellRecord:
    figures = row.to_json()
    content = json.dumps(figures, sort_keys=True).encode()
    return CellRecord(
        key="import " + hashlib.sha256(content).hexdigest(),
        setting=row.setting,
        concurrency=row.concurrency,
        depth=row.depth,
        valid=valid,
        plan={"output": row.output},
        figures=figures,
    )
