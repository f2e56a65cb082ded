"""Stored results are compared only where they measure the same thing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gearshift.bench.results import IncomparableError, diff, experiment_json, to_csv, why_incomparable
from gearshift.store import CellRecord, ExperimentRecord, StoredCell, StoredExperiment

PLAN = {"output": 128, "kind": "prose", "dialect": "chat", "exact": True, "cache": "cold", "rate": None}


def cell(level: int, tpot_s: float, *, spread: float | None = 0.001, valid: bool = True, **plan: Any) -> StoredCell:
    ends = {"low": None, "high": None} if spread is None else {"low": tpot_s - spread, "high": tpot_s + spread}
    figures = {"tpot_s": {"median": tpot_s, **ends}, "ttft_s": None, "flags": ["drift"]}
    record = CellRecord("k", "", level, 512, valid, PLAN | plan, figures)
    return StoredCell(level, 1, record)


def experiment(number: int, *cells: StoredCell, name: str = "concurrency", tool: str = "gearshift") -> StoredExperiment:
    record = ExperimentRecord(name, 100.0, {"url": "http://h"}, {}, model="m", tool=tool, tool_version="0.1")
    return StoredExperiment(number, record, "done", 160.0, {"advice": ["x"]}, len(cells), cells)


def test_common_cells_are_compared_with_what_their_intervals_say() -> None:
    a = experiment(1, cell(1, 0.010), cell(4, 0.02), cell(8, 0.03))
    b = experiment(2, cell(1, 0.013), cell(4, 0.0205))
    changes = diff(a, b)
    assert [(change.concurrency, change.figure, change.apart) for change in changes] == [
        (1, "tpot_s", True),
        (4, "tpot_s", False),
    ]
    assert changes[0].change == pytest.approx(0.3)


def test_a_single_run_has_no_interval_to_be_apart() -> None:
    (change,) = diff(experiment(1, cell(1, 0.01, spread=None)), experiment(2, cell(1, 0.02)))
    assert change.apart is None


@pytest.mark.parametrize(
    ("b", "reason"),
    [
        (experiment(2, cell(1, 0.01), name="ladder"), "the questions differ"),
        (experiment(2, cell(1, 0.01), tool="aiperf"), "define their figures differently"),
        (experiment(2, cell(1, 0.01, output=64)), "the length of the answers differs"),
        (experiment(2, cell(1, 0.01, kind="code")), "the kind of text differs"),
        (experiment(2, cell(1, 0.01, cache="warm")), "whether prompts were cold"),
        (experiment(2, cell(1, 0.01, burst=True)), "whether streams start at once differs: False against True"),
        (experiment(2, cell(2, 0.01)), "no point in common"),
        (experiment(2), "no cells"),
    ],
)
def test_what_measures_something_else_is_refused_with_the_reason(b: StoredExperiment, reason: str) -> None:
    a = experiment(1, cell(1, 0.01))
    assert any(reason in found for found in why_incomparable(a, b))
    with pytest.raises(IncomparableError, match="cannot be compared"):
        diff(a, b)


def test_invalid_cells_are_not_compared() -> None:
    with pytest.raises(IncomparableError, match="no valid cell in common"):
        diff(experiment(1, cell(1, 0.01)), experiment(2, cell(1, 0.01, valid=False)))


def test_a_result_is_shown_in_the_form_of_bench() -> None:
    document = experiment_json(experiment(7, cell(1, 0.01)))
    assert "plan" in document  # by which a report of an export says how to repeat it
    assert document["id"] == 7
    assert document["advice"] == ["x"]
    assert document["verdict"] is None
    assert experiment_json(replace(experiment(8), outcome=None))["advice"] == []


def test_an_export_has_a_line_a_cell_with_nothing_for_unknown() -> None:
    head, line = to_csv([experiment(7, cell(1, 0.01))]).splitlines()
    values = dict(zip(head.split(","), line.split(","), strict=True))
    assert (values["tpot_s"], values["tpot_s_low"], values["ttft_s"]) == ("0.01", "0.009000000000000001", "")
    assert values["flags"] == "drift"
