"""Campaign files: planned whole, every problem named, run within their budget, resumed at the cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gearshift.bench import campaign
from gearshift.bench.budget import Pace
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
