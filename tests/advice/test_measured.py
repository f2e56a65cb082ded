"""Which of the measurements in the store a variant's plan is held against."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gearshift.advice.measured import measured_decode
from gearshift.domain.variant import EngineRef, Variant
from gearshift.store import CellRecord, ExperimentRecord, Measurements, open_store

VARIANT = Variant("m", "a", EngineRef("llama.cpp"), weights="/models/a.gguf")
ARGV = ["llama-server", "-m", "/models/a.gguf"]


@pytest.fixture
def store(tmp_path: Path) -> Measurements:
    return open_store(tmp_path / "gearshift.db").measurements


def target(variant: str = "m:a", argv: list[str] | None = ARGV) -> dict[str, Any]:
    return {"engine_version": "b11434", "provenance": {"variant": variant, "argv": argv}}


def cell(tok_s: float, depth: int, streams: int = 1, *, valid: bool = True, setting: str = "") -> CellRecord:
    figures: dict[str, Any] = {"decode_tok_s": {"median": tok_s}, "acceptance": {"per_position": [0.8, 0.5]}}
    return CellRecord(f"{tok_s}", setting, streams, depth, valid, {"output": 100}, figures)


def keep(store: Measurements, *cells: CellRecord, on: dict[str, Any] | None = None, **findings: Any) -> int:
    number = store.begin_experiment(ExperimentRecord("ladder", 1e9, on or target(), {}))
    for one in cells:
        store.add_cell(number, one)
    store.end_experiment(number, ended=1e9, state="done", outcome={"findings": findings})
    return number


def rate(store: Measurements, depth: int = 0, batch: int = 1, variant: Variant = VARIANT) -> float | None:
    found = measured_decode(store, variant, depth=depth, batch=batch)
    return found.tok_s if found else None


def test_the_nearest_depth_counts_and_among_equals_the_newest(store: Measurements) -> None:
    keep(store, cell(50, 1000), cell(40, 30_000))
    newest = keep(store, cell(60, 1000))
    found = measured_decode(store, VARIANT, depth=2000, batch=1)
    assert found is not None
    assert (found.tok_s, found.depth, found.result, found.at) == (60, 1050, newest, 1e9)  # half-way through the answer
    assert (found.engine_version, found.acceptance) == ("b11434", (0.8, 0.5))
    assert rate(store, depth=32_000) == 40


def test_invalid_cells_and_other_batches_say_nothing(store: Measurements) -> None:
    keep(store, cell(50, 1000, valid=False), cell(20, 1000, streams=4))
    assert rate(store) is None
    assert rate(store, batch=4) == 80  # all four streams


def test_another_variant_or_the_same_on_other_weights_is_not_it(store: Measurements) -> None:
    keep(store, cell(50, 1000), on=target("m:b"))
    keep(store, cell(60, 1000), on=target(argv=["llama-server", "-m", "/models/old.gguf"]))
    keep(store, cell(70, 1000), on={"provenance": {}})
    assert rate(store) is None
    keep(store, cell(80, 1000), on=target(argv=None))
    assert rate(store) == 80


def test_of_a_comparison_only_the_side_that_was_this_variant_counts(store: Measurements) -> None:
    sides = {"a": target("m:b"), "b": target("m:a")}
    keep(store, cell(50, 1000, setting="a"), cell(60, 1000, setting="b"), on=target("m:b"), targets=sides)
    assert rate(store) == 60


def test_an_experiment_that_never_ended_says_nothing(store: Measurements) -> None:
    store.add_cell(store.begin_experiment(ExperimentRecord("ab", 1e9, target(), {})), cell(50, 1000))
    assert rate(store) is None
