"""Campaign files: planned whole, every problem named, run within their budget, resumed at the cell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gearshift.bench import campaign
from gearshift.bench.budget import Pace
from gearshift.bench.plan import CellPlan
from gearshift.bench.rig import Rig
from gearshift.bench.runner import Runner
from gearshift.bench.truth import Script, serve
from gearshift.bench.validity import Limits
from gearshift.domain.errors import ConfigError
from gearshift.store import open_store

FILE: dict[str, Any] = {
    "name": "evening",
    "budget": "10m",
    "defaults": {"trials": 2, "output": 8, "requests": 2},
    "experiments": [
        {"kind": "ladder", "depths": ["64", 128], "needle": [0.5]},
        {"kind": "concurrency", "levels": [1, 2], "input": 48, "kind_of": "x"},
        {"kind": "prefix", "prefix": 64, "suffix": 32},
    ],
}
GOOD = FILE | {
    "experiments": [{key: v for key, v in entry.items() if key != "kind_of"} for entry in FILE["experiments"]]
}


def test_a_campaign_is_read_into_plans() -> None:
    found = campaign.read_campaign(GOOD, context=4096)
    assert (found.name, found.budget_s) == ("evening", 600)
    assert [step.plan.name for step in found.steps] == ["ladder", "concurrency", "prefix"]
    assert [cell.depth for cell in found.steps[0].plan.cells] == [64, 128]
    assert all(cell.trials == 2 for step in found.steps for cell in step.plan.cells)


def test_every_problem_of_a_campaign_is_named_with_its_place() -> None:
    broken = FILE | {
        "defaults": {"trails": 2},
        "experiments": [*FILE["experiments"], {"kind": "lader"}, {"kind": "concurrency"}],
    }
    with pytest.raises(ConfigError) as caught:
        campaign.read_campaign(broken, context=None)
    assert [problem.path for problem in caught.value.problems] == [
        "defaults.trails",
        "experiments[1].kind_of",
        "experiments[3].kind",
        "experiments[4]",
    ]


@pytest.mark.parametrize(
    ("part", "places"),
    [
        ({"experiments": 3}, ["experiments"]),
        ({"experiments": ["ladder", {"kind": "ladder", "trials": "3"}]}, ["experiments[0]", "experiments[1].trials"]),
        ({"defaults": ["trials"]}, ["defaults"]),
        ({"defaults": None}, ["defaults"]),
        ({"defaults": {"trials": 0, "depth": "deep", "exact": 1, "output": "1k"}},
         ["defaults.trials", "defaults.depth", "defaults.exact"]),
    ],
)  # fmt: skip
def test_parts_of_another_kind_are_problems_with_their_places(part: dict[str, Any], places: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        campaign.read_campaign(GOOD | part, context=None)
    assert [problem.path for problem in caught.value.problems] == places


def test_lengths_of_cells_are_written_as_everywhere() -> None:
    document = {"defaults": {"output": "1k"}, "experiments": [{"kind": "saturate", "depth": "4K"}]}
    (step,) = campaign.read_campaign(document, context=None).steps
    assert {(cell.depth, cell.output) for cell in step.plan.cells} == {(4096, 1000)}


def test_settings_may_be_called_as_the_verbs_options_are() -> None:
    said = {"repeats": 5, "text": "code", "api": "completions", "natural_end": True, "output": 64}
    meant = CellPlan("", trials=5, kind="code", dialect="completions", exact=False, output=64)
    for document in (
        {"defaults": said, "experiments": [{"kind": "ladder", "depths": [100]}]},
        {"experiments": [{"kind": "ladder", "depths": [100], **said}]},
    ):
        (step,) = campaign.read_campaign(document, context=None).steps
        assert step.plan.cells == (replace(meant, experiment="ladder", depth=100),)
    from_file = {"experiments": [{"kind": "concurrency", "levels": [1], "prompts": "spec.jsonl"}]}
    (step,) = campaign.read_campaign(from_file, context=None).steps
    assert (step.plan.cells[0].kind, step.plan.cells[0].file) == ("file", "spec.jsonl")


EVERY_KIND = {
    "defaults": {"trials": 2, "output": 8, "requests": 2},
    "experiments": [
        {"kind": "speculation", "tokens": {False: "q:plain", 2: "q:mtp2"}, "levels": [1, 4], "depths": ["1k"]},
        {"kind": "ab", "a": "q:plain", "b": "q:mtp2", "input": "1k", "streams": 3, "metric": "ttft_s", "trials": 6},
        {"kind": "saturate", "ttft": "500ms", "tpot": "50ms", "rate": 2, "factor": 2, "steps": 3},
        {"kind": "swap", "variants": ["q:plain", "q:mtp2"]},
    ],
}


def test_each_verb_is_a_kind_with_the_keys_of_its_options() -> None:
    speculation, ab, saturate, swap = campaign.read_campaign(EVERY_KIND, context=None).steps
    assert speculation.names == {"off": "q:plain", "2": "q:mtp2"}
    assert [(cell.setting, cell.concurrency, cell.depth) for cell in speculation.plan.cells] == [
        ("off", 1, 1000), ("off", 4, 1000), ("2", 1, 1000), ("2", 4, 1000),
    ]  # fmt: skip
    assert [(cell.setting, cell.trials, cell.requests, cell.depth) for cell in ab.plan.cells] == [
        ("q:plain", 6, 3, 1000), ("q:mtp2", 6, 3, 1000),
    ]  # fmt: skip
    assert [cell.rate for cell in saturate.plan.cells] == [2, 4, 8]
    assert (swap.plan.cells, list(swap.names), swap.trials) == ((), ["q:plain", "q:mtp2"], 2)


def test_bare_numbers_of_drafts_are_left_for_the_configuration_to_tell() -> None:
    entry = {"kind": "speculation", "tokens": [False, 3], "levels": [1]}
    (step,) = campaign.read_campaign({"experiments": [entry]}, context=None).steps
    assert step.names == {"off": "", "3": ""}


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"kind": "ab", "a": "x"}, "'b' is missing"),
        ({"kind": "ab", "a": "x", "b": "x"}, "both sides"),
        ({"kind": "ab", "a": "x", "b": "y", "metric": "speed"}, "'speed' is no metric"),
        ({"kind": "saturate", "ttft": "soon"}, "soon"),
    ],
)
def test_an_entry_that_cannot_be_planned_says_why(entry: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        campaign.read_campaign({"experiments": [entry]}, context=None)


def test_a_budget_that_is_no_duration_is_a_problem() -> None:
    with pytest.raises(ConfigError) as caught:
        campaign.read_campaign(GOOD | {"budget": "soon"}, context=None)
    assert [problem.path for problem in caught.value.problems] == ["budget"]


def test_a_step_of_swaps_has_an_equal_share_of_the_budget() -> None:
    levels, swaps = {"kind": "concurrency", "levels": [1, 2, 4]}, {"kind": "swap"}
    both = campaign.read_campaign({"budget": "60s", "experiments": [swaps, levels]}, context=None)
    alone = campaign.read_campaign({"budget": "30s", "experiments": [levels]}, context=None)
    pace = Pace(prefill_tok_s=1000, decode_tok_s=10)
    assert both.swap_budget_s == 30
    assert campaign.fit_campaign(both, pace)[1][1] == campaign.fit_campaign(alone, pace)[1][0]


def test_without_a_budget_swaps_have_no_limit() -> None:
    found = campaign.read_campaign({"experiments": [{"kind": "swap"}]}, context=None)
    assert found.swap_budget_s is None


def test_an_empty_campaign_is_a_problem() -> None:
    with pytest.raises(ConfigError, match="no experiment"):
        campaign.read_campaign({}, context=None)


def test_a_budget_is_shared_by_cost() -> None:
    found = campaign.read_campaign(GOOD | {"budget": "3s"}, context=None)
    cut, fitted = campaign.fit_campaign(found, Pace(prefill_tok_s=100, decode_tok_s=10))
    assert len(fitted) == 3
    assert all(step.plan.cells for step in cut.steps)
    assert sum(len(step.plan.cells) for step in cut.steps) < 6


@pytest.mark.anyio
async def test_a_campaign_resumes_at_the_cell(tmp_path: Path) -> None:
    measurements = open_store(tmp_path / "gearshift.db").measurements
    limits = Limits(decode_share=1000, ttft_share=1000, cpu=2)
    async with serve(Script(ttft_s=0.01, step_s=0.002, cache=True)) as server, Rig(server.url, limits=limits) as rig:
        plan = campaign.read_campaign(GOOD, context=rig.target.context)
        number = measurements.begin_campaign(plan.name, started=0.0, plan=GOOD)
        runner = Runner(rig, measurements=measurements, resume=True, campaign=number)
        first = await campaign.run(plan, runner)
        served = server.engine.tally.requests
        again = await campaign.run(plan, runner)
    valid = sum(cell.valid for result in first for cell in result.cells)
    assert valid == 6
    assert server.engine.tally.requests == served
    assert [len(result.cells) for result in again] == [2, 2, 2]
    assert {found.record.campaign for found in measurements.experiments()} == {number}
