"""The share of the ceiling: what `bench` adds to a conclusion about a variant whose files it can read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from artifacts import tiny_gguf
from gearshift.advice.bandwidths import Bandwidths, host_device
from gearshift.bench.cell import CellResult
from gearshift.bench.outcome import Outcome
from gearshift.bench.plan import CellPlan
from gearshift.cli.bench.ceilings import teller
from gearshift.cli.bench.view import render
from gearshift.cli.output import Output
from gearshift.cli.session import Session
from gearshift.planner.gpus import Gpu, MeasuredBandwidth

CARD = Gpu("a card", 24, 1000, None, "made up")
CELL = CellResult(CellPlan("ladder", depth=100, output=20), (), ())
ROW = {"variant": "m:a", "engine_version": "b11434"}


@pytest.fixture
def config(tmp_path: Path) -> str:
    weights = tiny_gguf.dense().write(tmp_path / "model.gguf")
    file = tmp_path / "gearshift.yaml"
    variant = f"{{engine: llama.cpp, weights: {weights}, context: 512}}"
    ngram = "{extends: a, speculation: {method: mtp, tokens: 2}}"
    file.write_text(f"models: {{m: {{variants: {{a: {variant}, b: {ngram}}}}}}}")
    return str(file)


def findings(row: dict[str, str], config: str | None, card: Gpu | None, *cells: CellResult) -> object:
    session = Session(env={}, output=Output())
    told = teller(session, row, config, card)(lambda _: Outcome(findings={"kept": 1}))
    return dict(told(cells).findings or {})


def test_a_stream_has_its_share_of_a_batchs_bound_half_way_through_its_answer(config: str) -> None:
    four = CellResult(CellPlan("concurrency", concurrency=4, depth=100, output=20), (), ())
    found = findings(ROW, config, CARD, CELL, four)
    assert isinstance(found, dict)
    alone, beside = found["ceiling"]
    assert found["kept"] == 1
    assert (alone["depth"], alone["concurrency"]) == (100, 1)
    assert alone["tok_s"] > beside["tok_s"] > 0
    assert alone["tok_s"] < 4 * beside["tok_s"]


def test_twice_the_bandwidth_is_twice_the_ceiling(config: str) -> None:
    faster = Gpu("another", 24, 2000, None, "made up")
    one, two = findings(ROW, config, CARD, CELL), findings(ROW, config, faster, CELL)
    assert isinstance(one, dict)
    assert isinstance(two, dict)
    assert two["ceiling"][0]["tok_s"] == pytest.approx(2 * one["ceiling"][0]["tok_s"])


def test_a_card_that_no_table_has_is_bounded_by_what_its_driver_tells(config: str) -> None:
    session = Session(env={"GEARSHIFT_FAKE_GPUS": "1x24GiB:1000"}, output=Output())
    told, by_hand = (teller(session, ROW, config, card)(lambda _: Outcome())([CELL]).findings for card in (None, CARD))
    rows: list[Any] = [dict(found or {})["ceiling"] for found in (told, by_hand)]
    assert rows[0][0]["tok_s"] == rows[1][0]["tok_s"]
    assert "from NVML" in rows[0][0]["bandwidth_from"]
    assert rows[1][0]["bandwidth_from"] == "made up"


def test_a_box_without_cards_is_bounded_by_its_memory_once_that_was_measured(config: str, tmp_path: Path) -> None:
    session = Session(env={"GEARSHIFT_HOME": str(tmp_path / "home")}, output=Output())
    nothing = teller(session, ROW, config, None)(lambda _: Outcome())([CELL]).findings
    assert not nothing
    seen = MeasuredBandwidth(20e9, "2 threads reading", 1_790_000_000.0)
    Bandwidths(session.paths.bandwidths).keep(host_device(), seen)
    found: dict[str, Any] = dict(teller(session, ROW, config, None)(lambda _: Outcome())([CELL]).findings or {})
    (row,) = found["ceiling"]
    assert row["bandwidth_from"] == seen.source
    assert row["share"] is None  # a cell without a valid rate


def test_nothing_is_measured_on_a_card_that_the_variant_is_on(config: str, tmp_path: Path) -> None:
    env = {"GEARSHIFT_HOME": str(tmp_path / "home"), "GEARSHIFT_FAKE_GPUS": "1x24GiB"}
    session = Session(env=env, output=Output())
    assert not teller(session, ROW, config, None, may_measure=True)(lambda _: Outcome())([CELL]).findings
    assert not session.paths.bandwidths.exists()


def test_the_table_says_each_cell_s_share_and_what_it_is_of_once() -> None:
    told = {"card": "a box", "bandwidth_from": "measured here"}
    rows = [
        {"setting": "", "concurrency": 1, "depth": 8192, "tok_s": 200.0, "share": 0.634, **told},
        {"setting": "b", "concurrency": 4, "depth": 100, "tok_s": 90.0, "share": 0.5, **told},
        {"setting": "c", "concurrency": 1, "depth": 100, "tok_s": 90.0, "share": None, **told},
    ]
    lines = render({"experiment": "ladder", "target": {}, "cells": [], "findings": {"ceiling": rows}}).splitlines()
    assert "at depth 8,192: 63% of the ceiling of 200 tok/s" in lines
    assert "b at depth 100, 4 streams: 50% of the ceiling of 90 tok/s" in lines
    assert lines.count("  of a box: measured here") == 1
    assert not any(line.startswith("c at") for line in lines)


def test_drafts_without_known_acceptance_have_no_ceiling(config: str) -> None:
    assert findings({**ROW, "variant": "m:b"}, config, CARD, CELL) == {"kept": 1}


@pytest.mark.parametrize("variant", ["m:a", "m:unknown"])
def test_where_nothing_is_known_nothing_is_added(config: str, variant: str) -> None:
    row = {**ROW, "variant": variant}
    assert findings(row, None, CARD, CELL) == {"kept": 1}
    assert findings(row, "/nonexistent.yaml", CARD, CELL) == {"kept": 1}
    if variant == "m:unknown":
        assert findings(row, config, CARD, CELL) == {"kept": 1}
