"""Campaigns, experiments, cells, trials and samples: raw stamps are kept, summaries can be derived again."""

from __future__ import annotations

import json
import sqlite3
import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from gearshift.store.database import StoreError, session, transaction
from gearshift.store.process import lives, own_mark

State = Literal["running", "done", "interrupted", "failed"]
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SampleRecord:
    """One request's raw stamps: seconds since it was sent; ``started_s`` since the trial began."""

    started_s: float
    ended_s: float
    chunk_s: tuple[float, ...]
    planned_s: float | None = None
    status: int | None = None
    error: str | None = None
    headers_s: float | None = None
    first_answer_s: float | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    token_ids: int | None = None
    engine: Json | None = None


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """One repeat; ``begun`` is unix time, ``boot`` numbers the engine starts of the experiment."""

    boot: int
    begun: float
    counters: Json | None
    watch: Json
    samples: tuple[SampleRecord, ...]


@dataclass(frozen=True, slots=True)
class CellRecord:
    """One measured cell. ``key`` is its content address: equal keys are the same measurement."""

    key: str
    setting: str
    concurrency: int | None
    depth: int | None
    valid: bool
    plan: Json
    figures: Json
    trials: tuple[TrialRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class ExperimentRecord:
    """One question asked of one target. ``tool`` says whose definitions its figures follow."""

    name: str
    started: float  # unix time
    target: Json
    plan: Json
    model: str | None = None
    tool: str = "gearshift"
    tool_version: str | None = None
    campaign: int | None = None


@dataclass(frozen=True, slots=True)
class StoredCell:
    """A cell as read back; its trials are read by `Measurements.trials`."""

    id: int
    experiment: int
    record: CellRecord


@dataclass(frozen=True, slots=True)
class StoredExperiment:
    """An experiment as read back. A listing leaves ``cells`` empty and gives their number."""

    id: int
    record: ExperimentRecord
    state: State
    ended: float | None
    outcome: Json | None
    cell_count: int
    cells: tuple[StoredCell, ...] = ()


@dataclass(frozen=True, slots=True)
class Measurements:
    """Reads and writes measurements. Every method opens the database for its own duration and may raise StoreError."""

    path: Path

    def begin_campaign(self, name: str, *, started: float, plan: Json) -> int:
        with session(self.path) as connection:
            values = (name, started, json.dumps(plan))
            return _inserted(connection.execute("INSERT INTO campaign (name, started, plan) VALUES (?, ?, ?)", values))

    def begin_experiment(self, record: ExperimentRecord) -> int:
        """Its id; the experiment counts as running until `end_experiment`, or until this process is gone."""
        row = (
            record.campaign, record.name, record.tool, record.tool_version, record.model, record.started, "running",
            json.dumps(record.target), json.dumps(record.plan), own_mark(),
        )  # fmt: skip
        with session(self.path) as connection:
            return _inserted(connection.execute(_INSERT_EXPERIMENT, row))

    def add_cell(self, experiment: int, record: CellRecord) -> int:
        """Its id. The cell with all its trials and samples is written in one transaction, or not at all."""
        with session(self.path) as connection, transaction(connection):
            row = (
                experiment, record.key, record.setting, record.concurrency, record.depth, int(record.valid),
                json.dumps(record.plan), json.dumps(record.figures),
            )  # fmt: skip
            cell = _inserted(connection.execute(_INSERT_CELL, row))
            for trial in record.trials:
                _insert_trial(connection, cell, trial)
            return cell

    def end_experiment(self, experiment: int, *, ended: float, state: State, outcome: Json | None = None) -> None:
        values = (ended, state, None if outcome is None else json.dumps(outcome), experiment)
        with session(self.path) as connection:
            connection.execute("UPDATE experiment SET ended = ?, state = ?, outcome = ? WHERE id = ?", values)

    def experiments(
        self, *, name: str | None = None, model: str | None = None, limit: int = 100
    ) -> tuple[StoredExperiment, ...]:
        """Newest first, without their cells."""
        values = {"name": name, "model": model, "limit": limit}
        with session(self.path) as connection:
            return tuple(_experiment(row) for row in connection.execute(_LIST_EXPERIMENTS, values))

    def experiment(self, number: int) -> StoredExperiment:
        """One experiment with its cells in the order they were measured.

        Raises:
            StoreError: there is none of that number.
        """
        with session(self.path) as connection:
            row = connection.execute(_ONE_EXPERIMENT, (number,)).fetchone()
            if row is None:
                msg = f"no experiment {number} in {self.path}"
                raise StoreError(msg, hint="list them with: gearshift results list")
            cells = connection.execute("SELECT * FROM cell WHERE experiment = ? ORDER BY id", (number,))
            return replace(_experiment(row), cells=tuple(_cell(found) for found in cells))

    def find_cell(self, key: str) -> StoredCell | None:
        """The newest valid cell with this content address."""
        query = "SELECT * FROM cell WHERE key = ? AND valid = 1 ORDER BY id DESC LIMIT 1"
        with session(self.path) as connection:
            row = connection.execute(query, (key,)).fetchone()
            return None if row is None else _cell(row)

    def trials(self, cell: int) -> tuple[TrialRecord, ...]:
        """A cell's trials with their raw samples, in order."""
        with session(self.path) as connection:
            rows = connection.execute("SELECT * FROM trial WHERE cell = ? ORDER BY id", (cell,)).fetchall()
            return tuple(_trial(connection, row) for row in rows)

    def delete_experiment(self, number: int) -> None:
        """With its cells, trials and samples."""
        with session(self.path) as connection:
            connection.execute("DELETE FROM experiment WHERE id = ?", (number,))


_INSERT_EXPERIMENT = """
    INSERT INTO experiment (campaign, name, tool, tool_version, model, started, state, target, plan, process)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_INSERT_CELL = """
    INSERT INTO cell (experiment, key, setting, concurrency, depth, valid, plan, figures)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_INSERT_SAMPLE = """
    INSERT INTO sample (trial, started_s, ended_s, planned_s, status, error, headers_s, first_answer_s, chunk_s,
                        prompt_tokens, completion_tokens, cached_tokens, reasoning_tokens, token_ids, engine)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_COUNTED = "SELECT *, (SELECT count(*) FROM cell WHERE experiment = experiment.id) AS cell_count FROM experiment"
_LIST_EXPERIMENTS = f"""
    {_COUNTED} WHERE (:name IS NULL OR name = :name) AND (:model IS NULL OR model = :model)
    ORDER BY id DESC LIMIT :limit
"""
_ONE_EXPERIMENT = f"{_COUNTED} WHERE id = ?"


def _insert_trial(connection: sqlite3.Connection, cell: int, trial: TrialRecord) -> None:
    counters = None if trial.counters is None else json.dumps(trial.counters)
    row = (cell, trial.boot, trial.begun, counters, json.dumps(trial.watch))
    number = _inserted(
        connection.execute("INSERT INTO trial (cell, boot, begun, counters, watch) VALUES (?, ?, ?, ?, ?)", row)
    )
    connection.executemany(_INSERT_SAMPLE, [_sample_row(number, sample) for sample in trial.samples])


def _sample_row(trial: int, sample: SampleRecord) -> tuple[object, ...]:
    return (
        trial, sample.started_s, sample.ended_s, sample.planned_s, sample.status, sample.error, sample.headers_s,
        sample.first_answer_s, _pack(sample.chunk_s), sample.prompt_tokens, sample.completion_tokens,
        sample.cached_tokens, sample.reasoning_tokens, sample.token_ids,
        None if sample.engine is None else json.dumps(sample.engine),
    )  # fmt: skip


def _trial(connection: sqlite3.Connection, row: sqlite3.Row) -> TrialRecord:
    samples = connection.execute("SELECT * FROM sample WHERE trial = ? ORDER BY id", (row["id"],))
    return TrialRecord(
        boot=row["boot"],
        begun=row["begun"],
        counters=_load(row["counters"]),
        watch=json.loads(row["watch"]),
        samples=tuple(_sample(found) for found in samples),
    )


def _sample(row: sqlite3.Row) -> SampleRecord:
    values = dict(row)
    del values["id"], values["trial"]
    return SampleRecord(**values | {"chunk_s": _unpack(values["chunk_s"]), "engine": _load(values["engine"])})


def _experiment(row: sqlite3.Row) -> StoredExperiment:
    record = ExperimentRecord(
        name=row["name"],
        started=row["started"],
        target=json.loads(row["target"]),
        plan=json.loads(row["plan"]),
        model=row["model"],
        tool=row["tool"],
        tool_version=row["tool_version"],
        campaign=row["campaign"],
    )
    return StoredExperiment(row["id"], record, _state(row), row["ended"], _load(row["outcome"]), row["cell_count"])


def _state(row: sqlite3.Row) -> State:
    """As it was stored; a run whose process is gone was interrupted, though nobody was left to write it down.

    One without a process is of a Gearshift that knows only an older schema: it cannot write its end here any more.
    """
    state: State = row["state"]
    running = state == "running" and row["process"] and lives(row["process"])
    return "interrupted" if state == "running" and not running else state


def _cell(row: sqlite3.Row) -> StoredCell:
    record = CellRecord(
        key=row["key"],
        setting=row["setting"],
        concurrency=row["concurrency"],
        depth=row["depth"],
        valid=bool(row["valid"]),
        plan=json.loads(row["plan"]),
        figures=json.loads(row["figures"]),
    )
    return StoredCell(row["id"], row["experiment"], record)


def _load(text: str | None) -> Any | None:
    return None if text is None else json.loads(text)


def _inserted(cursor: sqlite3.Cursor) -> int:
    if cursor.lastrowid is None:
        msg = "SQLite gave no row id for an insert"
        raise RuntimeError(msg)
    return cursor.lastrowid


def _pack(stamps: Sequence[float]) -> bytes:
    packed = array("d", stamps)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def _unpack(data: bytes) -> tuple[float, ...]:
    packed = array("d", data)
    if sys.byteorder == "big":
        packed.byteswap()
    return tuple(packed)
