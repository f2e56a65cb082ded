"""`report` takes stored results and documents, and writes what its name asks for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from gearshift.store import CellRecord, ExperimentRecord, open_store

Gearshift = Callable[..., Result]
DOCUMENT = {
    "experiment": "ladder",
    "target": {"url": "http://127.0.0.1:1", "model": "m", "engine": "vllm", "engine_version": "0.32.0"},
    "cells": [{"depth": depth, "concurrency": 1, "decode_tok_s": {"median": 50.0}} for depth in (1024, 4096)],
    "verdict": None,
    "advice": ["decode holds"],
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ladder.json"
    path.write_text(json.dumps(DOCUMENT))
    return path


def test_the_outputs_name_decides_what_is_written(gearshift: Gearshift, file: Path, tmp_path: Path) -> None:
    page, post = tmp_path / "page.html", tmp_path / "post.md"
    assert gearshift("report", str(file), "-o", str(page)).exit_code == 0
    assert gearshift("report", str(file), "-o", str(post)).exit_code == 0
    assert page.read_text().startswith("<!doctype html>")
    assert "<svg" in page.read_text()
    assert post.read_text().startswith("# Measured: m\n")


def test_without_an_output_the_report_goes_to_stdout(gearshift: Gearshift, file: Path) -> None:
    done = gearshift("report", str(file), "--format", "markdown", "--title", "Evening")
    assert done.stdout.startswith("# Evening\n")
    assert "- Decode holds." in done.stdout


def test_a_document_may_come_from_a_pipe(gearshift: Gearshift) -> None:
    done = gearshift("report", "-", "--format", "markdown", piped=json.dumps([DOCUMENT, DOCUMENT]))
    assert done.exit_code == 0
    assert done.stdout.count("| 4,096 |") == 2


def test_a_stored_result_is_written_with_the_command_that_repeats_it(
    gearshift: Gearshift, gearshift_home: Path
) -> None:
    kept = open_store(gearshift_home / "gearshift.db").measurements
    plan = {"concurrency": 2, "depth": 64, "output": 16, "requests": 4, "trials": 3, "kind": "prose", "dialect": "chat"}
    target = {"url": "http://127.0.0.1:1", "model": "m", "provenance": {}}
    record = ExperimentRecord("concurrency", 1_790_000_000.0, target, {"cells": [plan]}, model="m")
    number = kept.begin_experiment(record)
    kept.add_cell(number, CellRecord("k", "", 2, 64, True, plan, {"concurrency": 2, "output_tok_s": {"median": 9.0}}))  # noqa: FBT003 - a record's field
    done = gearshift("report", str(number), "--format", "markdown")
    assert (
        "gearshift bench concurrency --levels 2 --input 64 --model m --url http://127.0.0.1:1"
        " --output 16 --requests 4 --repeats 3\n"
    ) in done.stdout


@pytest.mark.parametrize("source", ["99", "/nonexistent.json"])
def test_a_source_that_is_not_there_is_an_error(gearshift: Gearshift, source: str) -> None:
    done = gearshift("report", source)
    assert done.exit_code == 1
    assert done.stdout == ""
    assert source in done.stderr


def test_a_file_that_is_no_result_is_refused(gearshift: Gearshift, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text('{"answer": 42}')
    done = gearshift("report", str(path))
    assert done.exit_code == 1
    assert "this is no result: an object with answer" in done.stderr
