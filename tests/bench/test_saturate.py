"""An open loop finds the rate a server of known truth can take."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.bench.experiments import saturate
from gearshift.bench.plan import CellPlan
from gearshift.bench.rig import Rig
from gearshift.bench.runner import Runner
from gearshift.bench.sample import Sample
from gearshift.bench.truth import Script, serve
from gearshift.bench.validity import Limits


@pytest.mark.anyio
async def test_the_rate_that_a_server_with_one_slot_can_take_is_found() -> None:
    """One slot of 20 ms a request serves 50 requests a second; 20 hold, 500 queue up far past the limit."""
    script = Script(ttft_s=0.012, step_s=0.002, slots=1)
    base = CellPlan("", depth=48, output=5, requests=8, trials=1)
    patient = Limits(decode_share=1000.0, ttft_share=1000.0, cpu=2.0)
    async with serve(script) as server, Rig(server.url, limits=patient) as rig:
        plan = saturate.plan(base, first_rate=20.0, factor=25.0)
        result = await saturate.run(Runner(rig), plan, saturate.Goal(ttft_s=0.3))
    assert [cell.plan.rate for cell in result.cells] == [20.0, 500.0]
    assert result.outcome.advice[0].startswith("holds 20 requests/s")
    assert "%, by its interval " in result.outcome.advice[0]
    assert "% to 100%, had their first token within 300 ms)" in result.outcome.advice[0]
    assert [cell.plan.requests for cell in result.cells] == [8, 200]
    assert result.outcome.findings is not None
    assert result.outcome.findings["goal"] == {"ttft_s": 0.3, "tpot_s": None}


@pytest.mark.anyio
async def test_a_rate_whose_cell_is_invalid_counts_for_nothing_and_has_no_limit_of_streams() -> None:
    base = CellPlan("", depth=48, output=5, requests=4, trials=1)
    strict = Limits(decode_share=-1.0)  # any lateness of the client is too much
    async with serve(Script(ttft_s=0.005, step_s=0.001)) as server, Rig(server.url, limits=strict) as rig:
        plan = saturate.plan(base, first_rate=50.0, most=1)
        result = await saturate.run(Runner(rig), plan, saturate.Goal(ttft_s=5.0))
    (words,) = result.outcome.advice
    assert words.startswith("of no account: 50/s: loop lag")
    assert result.outcome.findings is not None
    assert [row["valid"] for row in result.outcome.findings["goodput"]] == [False]  # type: ignore[attr-defined]
    assert result.cells[0].to_json()["concurrency"] is None


def sample(ttft_s: float, *, late_s: float = 0.0) -> Sample:
    return Sample(1.0 + late_s, 2.0, 200, planned_s=1.0, chunk_s=(ttft_s, ttft_s + 1.0))


def test_waiting_to_be_sent_counts_against_the_limit() -> None:
    goal = saturate.Goal(ttft_s=0.5)
    assert goal.met_by(sample(0.4))
    assert not goal.met_by(sample(0.4, late_s=0.2))
    assert not goal.met_by(Sample(0.0, 1.0, 500, error="HTTP 500"))


@given(st.integers(1, 500), st.data())
def test_a_share_lies_within_its_interval(total: int, data: st.DataObject) -> None:
    good = data.draw(st.integers(0, total))
    low, high = saturate.wilson(good, total)
    assert 0 <= low <= good / total + 1e-12
    assert good / total - 1e-12 <= high <= 1
