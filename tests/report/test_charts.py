"""Which cells a chart shows, and which it must never show together."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.report import Experiment, read_documents
from gearshift.report.blocks import Figure
from gearshift.report.charts import acceptance, ceiling, depth, load, memory, speculation, swaps
from gearshift.report.charts.shapes import Bars, Heat, Lines, Stacks
from gearshift.report.drawing import break_even


def experiments(*documents: dict[str, Any]) -> tuple[Experiment, ...]:
    return read_documents(documents)


def ladder(rates: dict[int, float], **more: Any) -> dict[str, Any]:
    cells = [
        {"depth": at, "concurrency": 1, "decode_tok_s": {"median": rate, "low": rate - 1, "high": rate + 1}}
        for at, rate in rates.items()
    ]
    return {"experiment": "ladder", "target": {"model": "m"}, "cells": cells, **more}


def test_decode_against_depth_has_a_point_a_cell_with_its_interval() -> None:
    (figure,) = depth.figures(experiments(ladder({4096: 40.0, 1024: 50.0})))
    assert isinstance(figure.chart, Lines)
    (line,) = figure.chart.series
    assert [(point.x, point.y, point.low, point.high) for point in line.points] == [
        (1024, 50.0, 49.0, 51.0),
        (4096, 40.0, 39.0, 41.0),
    ]
    assert figure.note == "Whiskers are 95 % intervals."
    assert "50 at 1,024" in figure.text


def test_an_invalid_cell_is_not_drawn() -> None:
    document = ladder({1024: 50.0, 4096: 40.0, 8192: 99.0})
    document["cells"][2] |= {"valid": False, "flags": ["foreign_requests"]}
    (figure,) = depth.figures(experiments(document))
    assert isinstance(figure.chart, Lines)
    assert [point.x for point in figure.chart.series[0].points] == [1024, 4096]


def test_one_point_is_no_line() -> None:
    assert list(depth.figures(experiments(ladder({1024: 50.0})))) == []


def test_a_line_has_one_level_of_the_other_coordinate() -> None:
    """Depths of one stream are no curve against concurrency, and eight streams are no part of one stream's curve."""
    one, eight = ladder({1024: 50.0, 4096: 40.0}), ladder({1024: 20.0, 4096: 15.0})
    cells = [*one["cells"], *({**cell, "concurrency": 8} for cell in eight["cells"])]
    both = experiments({"tool": "t", "model": "m", "definitions": {}, "rows": cells, "invariants": []})
    (figure,) = depth.figures(both)
    assert isinstance(figure.chart, Lines)
    assert [line.label for line in figure.chart.series] == ["m 1 stream", "m 8 streams"]
    assert [point.y for point in figure.chart.series[1].points] == [20.0, 15.0]
    (across,) = load.figures(both)
    assert isinstance(across.chart, Lines)
    assert [line.label for line in across.chart.series] == ["m 1,024 tokens", "m 4,096 tokens"]


def test_the_second_measurement_of_one_thing_has_a_label_of_its_own() -> None:
    (figure,) = depth.figures(experiments(*[ladder({1024: 50.0, 4096: 40.0})] * 2))
    assert isinstance(figure.chart, Lines)
    assert [line.label for line in figure.chart.series] == ["m", "m (2)"]


def imported(tool: str, **definitions: str) -> dict[str, Any]:
    rows = [{"concurrency": level, "output_tok_s": 10.0 * level} for level in (1, 4)]
    return {"tool": tool, "model": "m", "definitions": definitions, "rows": rows, "invariants": []}


def test_two_tools_or_two_definitions_never_share_an_axis() -> None:
    for other in (imported("guidellm", tpot="with TTFT inside"), imported("vllm bench serve", tpot="means")):
        both = experiments(imported("vllm bench serve"), other)
        with pytest.raises(ValueError, match="share an axis"):
            list(load.figures(both))


def test_a_tools_mean_is_called_a_mean() -> None:
    (found,) = experiments({**imported("t"), "rows": [{"ttft_s": {"mean": 0.5, "p99": 2.0}}]})
    value = found.cells[0].figure("ttft_s")
    assert value is not None
    assert (value.value, value.of) == (0.5, "mean")


def test_acceptance_shows_at_most_six_cells_first_and_last_among_them() -> None:
    cells = [
        {"setting": "2", "concurrency": level, "acceptance": {"per_position": [0.8, 0.5], "mean_length": 2.3}}
        for level in range(1, 12)
    ]
    (figure,) = acceptance.figures(experiments({"experiment": "speculation", "target": {}, "cells": cells}))
    assert isinstance(figure.chart, Bars)
    labels = [label for label, _ in figure.chart.series]
    assert len(labels) == 6
    assert labels[0] == "2, 1 stream"
    assert labels[-1] == "2, 11 streams"
    assert figure.chart.groups == ("1", "2")


def gain(level: int, ratio: float, low: float | None = None, high: float | None = None) -> dict[str, Any]:
    return {"concurrency": level, "ratio": ratio, "low": low, "high": high}


def test_the_speculation_map_marks_what_the_intervals_decide() -> None:
    rows = [
        {"setting": "2", "depth": 512, "gains": [gain(1, 1.5, 1.3, 1.7), gain(8, 0.9, 0.8, 1.05)]},
        {"setting": "3", "depth": 512, "gains": [gain(8, 0.7, 0.6, 0.8)]},
    ]
    document = {"experiment": "speculation", "target": {}, "cells": [], "findings": {"break_even": rows}}
    (figure,) = speculation.figures(experiments(document))
    assert isinstance(figure.chart, Heat)
    assert figure.chart.values == ((1.5, 0.9), (None, 0.7))
    assert figure.chart.sure == ((True, False), (False, True))


@given(st.lists(st.lists(st.none() | st.floats(0.1, 3), min_size=3, max_size=3), min_size=1, max_size=4))
def test_the_break_even_line_runs_exactly_between_the_sides_of_one(values: list[list[float | None]]) -> None:
    edges = set(break_even(values))
    for row, line in enumerate(values):
        for column, (here, there) in enumerate(itertools.pairwise(line)):
            apart = here is not None and there is not None and (here >= 1) != (there >= 1)
            assert (((column + 1, row), (column + 1, row + 1)) in edges) is apart
    for row, (line, below) in enumerate(itertools.pairwise(values)):
        for column, (here, there) in enumerate(zip(line, below, strict=True)):
            apart = here is not None and there is not None and (here >= 1) != (there >= 1)
            assert (((column, row + 1), (column + 1, row + 1)) in edges) is apart


def test_swap_phases_add_up_to_the_first_token() -> None:
    phases = {"drain_s": 0.0, "stop_s": 0.2, "memory_s": 0.1, "load_s": 1.0, "probe_s": 0.2, "overhead_s": 0.1}
    cell = {"setting": "a > b", **phases, "total_s": 1.6, "first_token_s": 2.0}
    (figure,) = swaps.figures(experiments({"experiment": "swap", "target": {}, "cells": [cell]}))
    assert isinstance(figure.chart, Stacks)
    assert sum(values[0] for _, values in figure.chart.parts) == pytest.approx(2.0)
    assert "drain" not in [label for label, _ in figure.chart.parts]


def test_memory_has_a_bar_for_each_variant_also_of_an_ab() -> None:
    def target(variant: str, weights: int) -> dict[str, Any]:
        return {"provenance": {"variant": variant, "memory": {"weights_bytes": weights, "kv_pool_bytes": 10}}}

    document = {
        "experiment": "ab",
        "target": target("m:a", 5),
        "cells": [],
        "findings": {"targets": {"m:a": target("m:a", 5), "m:b": target("m:b", 3)}},
    }
    (figure,) = memory.figures(experiments(document))
    assert isinstance(figure.chart, Stacks)
    assert figure.chart.bars == ("m:a", "m:b")
    assert dict(figure.chart.parts) == {"weights": (5.0, 3.0), "KV pool": (10.0, 10.0)}


def test_a_bar_without_weights_says_that_it_is_not_the_whole() -> None:
    target = {"provenance": {"variant": "m:cpu", "memory": {"weights_bytes": None, "kv_pool_bytes": 2**29}}}
    (figure,) = memory.figures(experiments({"experiment": "ladder", "target": target, "cells": []}))
    assert isinstance(figure.chart, Stacks)
    assert figure.chart.bars == ("m:cpu, weights not told",)
    assert "m:cpu, weights not told: KV pool 512 MiB" in figure.text


def test_the_share_of_the_ceiling_is_measured_over_possible() -> None:
    document = ladder({1024: 50.0, 4096: 40.0})
    document["findings"] = {"ceiling": [{"setting": "", "concurrency": 1, "depth": 1024, "tok_s": 100.0}]}
    (figure,) = ceiling.figures(experiments(document))
    assert isinstance(figure, Figure)
    assert isinstance(figure.chart, Bars)
    assert figure.chart.series == (("measured", (0.5,)),)
