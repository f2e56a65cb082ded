"""Measurements come back whole, and only whole ones are written."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gearshift.store import (
    CellRecord,
    ExperimentRecord,
    Measurements,
    SampleRecord,
    StoreError,
    TrialRecord,
    open_store,
)
from gearshift.store.measurements import _pack, _unpack

SAMPLE = SampleRecord(
    started_s=0.1,
    ended_s=1.5,
    chunk_s=(0.2, 0.30000000000000004, 1.4),
    status=200,
    prompt_tokens=64,
    completion_tokens=3,
    engine={"decode_s": 1.2},
)
TRIAL = TrialRecord(boot=0, begun=1000.5, counters={"drafts": 3.0}, watch={"loop_lag_s": 0.001}, samples=(SAMPLE,))
CELL = CellRecord(
    key="k1",
    setting="off",
    concurrency=4,
    depth=512,
    valid=True,
    plan={"output": 128},
    figures={"tpot_s": {"median": 0.01}},
    trials=(TRIAL, replace(TRIAL, counters=None)),
)
EXPERIMENT = ExperimentRecord("concurrency", 1000.0, {"url": "http://h"}, {"cells": 1}, model="m", tool_version="0.1")


@pytest.fixture
def measurements(tmp_path: Path) -> Measurements:
    return open_store(tmp_path / "gearshift.db").measurements


def test_a_cell_comes_back_with_its_raw_stamps(measurements: Measurements) -> None:
    experiment = measurements.begin_experiment(EXPERIMENT)
    cell = measurements.add_cell(experiment, CELL)

    found = measurements.experiment(experiment)
    assert found.record == EXPERIMENT
    assert [stored.record for stored in found.cells] == [replace(CELL, trials=())]
    assert measurements.trials(cell) == CELL.trials


def test_an_experiment_runs_until_it_is_ended(measurements: Measurements) -> None:
    number = measurements.begin_experiment(EXPERIMENT)
    assert measurements.experiment(number).state == "running"

    measurements.end_experiment(number, ended=1060.0, state="interrupted", outcome={"advice": ["again"]})

    found = measurements.experiment(number)
    assert (found.state, found.ended, found.outcome) == ("interrupted", 1060.0, {"advice": ["again"]})


def test_listing_filters_counts_cells_and_gives_the_newest_first(measurements: Measurements) -> None:
    first = measurements.begin_experiment(EXPERIMENT)
    measurements.add_cell(first, CELL)
    second = measurements.begin_experiment(replace(EXPERIMENT, name="ladder"))
    measurements.begin_experiment(replace(EXPERIMENT, model="other"))

    found = measurements.experiments(model="m")

    assert [(stored.id, stored.cell_count) for stored in found] == [(second, 0), (first, 1)]
    assert [stored.id for stored in measurements.experiments(name="ladder")] == [second]


def test_a_cell_is_found_again_by_its_key_when_it_was_valid(measurements: Measurements) -> None:
    experiment = measurements.begin_experiment(EXPERIMENT)
    assert measurements.find_cell("k1") is None
    measurements.add_cell(experiment, replace(CELL, valid=False))
    assert measurements.find_cell("k1") is None
    newest = measurements.add_cell(experiment, CELL)

    found = measurements.find_cell("k1")

    assert found is not None
    assert found.id == newest


def test_a_cell_that_cannot_be_written_whole_is_not_written(measurements: Measurements) -> None:
    experiment = measurements.begin_experiment(EXPERIMENT)
    broken = replace(SAMPLE, status="two hundred")  # type: ignore[arg-type]  # STRICT tables refuse it
    bad_trial = replace(TRIAL, samples=(broken,))
    with pytest.raises(StoreError):
        measurements.add_cell(experiment, replace(CELL, trials=(TRIAL, bad_trial)))
    assert measurements.experiment(experiment).cells == ()


def test_a_campaign_holds_its_experiments(measurements: Measurements) -> None:
    campaign = measurements.begin_campaign("evening", started=1.0, plan={"budget_s": 1200})
    number = measurements.begin_experiment(replace(EXPERIMENT, campaign=campaign))
    assert measurements.experiment(number).record.campaign == campaign


def test_a_deleted_experiment_takes_its_cells_with_it(measurements: Measurements) -> None:
    number = measurements.begin_experiment(EXPERIMENT)
    cell = measurements.add_cell(number, CELL)
    measurements.delete_experiment(number)
    assert measurements.trials(cell) == ()
    with pytest.raises(StoreError, match="no experiment"):
        measurements.experiment(number)


def test_a_cell_needs_its_experiment(measurements: Measurements) -> None:
    with pytest.raises(StoreError, match="FOREIGN KEY"):
        measurements.add_cell(99, CELL)


@settings(max_examples=50)
@given(st.lists(st.floats(allow_nan=False)))
def test_stamps_survive_packing_bit_by_bit(stamps: list[float]) -> None:
    assert _unpack(_pack(stamps)) == tuple(stamps)


KILLED = """
import os, signal, sys
from pathlib import Path
from gearshift.store import ExperimentRecord, Measurements
print(Measurements(Path(sys.argv[1])).begin_experiment(ExperimentRecord("ladder", 1.0, {}, {})), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_run_that_was_killed_counts_as_interrupted(measurements: Measurements) -> None:
    command = [sys.executable, "-c", KILLED, str(measurements.path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    ours = measurements.begin_experiment(EXPERIMENT)
    assert measurements.experiment(int(done.stdout)).state == "interrupted"
    assert measurements.experiment(ours).state == "running"


def test_a_run_of_a_gearshift_from_before_a_migration_cannot_end_and_counts_as_interrupted(
    measurements: Measurements,
) -> None:
    old, ours = measurements.begin_experiment(EXPERIMENT), measurements.begin_experiment(EXPERIMENT)
    with closing(sqlite3.connect(measurements.path)) as connection, connection:
        connection.execute("UPDATE experiment SET process = NULL WHERE id = ?", (old,))
    assert measurements.experiment(old).state == "interrupted"
    assert measurements.experiment(ours).state == "running"
