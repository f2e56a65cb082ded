"""The share of the ceiling: what `bench` adds to a conclusion about a variant whose files it can read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from artifacts import tiny_gguf
from gearshift.bench.cell import CellResult
from gearshift.bench.outcome import Outcome
from gearshift.bench.plan import CellPlan
from gearshift.cli.bench.ceilings import teller
from gearshift.cli.output import Output
from gearshift.cli.session import Session
from gearshift.planner.gpus import Gpu

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


def test_drafts_without_known_acceptance_have_no_ceiling(config: str) -> None:
    assert findings({**ROW, "variant": "m:b"}, config, CARD, CELL) == {"kept": 1}


@pytest.mark.parametrize("variant", ["m:a", "m:unknown"])
def test_where_nothing_is_known_nothing_is_added(config: str, variant: str) -> None:
    row = {**ROW, "variant": variant}
    assert findings(row, None, CARD, CELL) == {"kept": 1}
    assert findings(row, "/nonexistent.yaml", CARD, CELL) == {"kept": 1}
    if variant == "m:unknown":
        assert findings(row, config, CARD, CELL) == {"kept": 1}
