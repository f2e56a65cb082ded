"""A plan is cut to its time: repeats go first, then the dearest cells."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gearshift.bench.budget import Pace, fit
from gearshift.bench.plan import CellPlan, ExperimentPlan

PACE = Pace(prefill_tok_s=1000, decode_tok_s=50)
PLAN = ExperimentPlan("ladder", tuple(CellPlan("ladder", depth=depth, trials=5) for depth in (1000, 8000, 64_000)))


def test_a_plan_within_its_budget_is_left_alone() -> None:
    fitted = fit(PLAN, PACE, 1e9)
    assert fitted.plan == PLAN
    assert fitted.plan.left_out == ()


def test_repeats_are_given_up_before_cells() -> None:
    full = sum(PACE.cost_s(cell) for cell in PLAN.cells)
    fitted = fit(PLAN, PACE, 0.6 * full)
    assert len(fitted.plan.cells) == 3
    assert min(cell.trials for cell in fitted.plan.cells) >= 2
    assert fitted.cost_s <= 0.6 * full


def test_the_dearest_cell_goes_when_repeats_do_not_help() -> None:
    fitted = fit(PLAN, PACE, 150)
    assert [cell.depth for cell in fitted.plan.left_out] == [64_000]
    assert [cell.depth for cell in fitted.plan.cells] == [1000, 8000]


def test_of_equally_dear_cells_the_first_setting_stays_for_the_others_to_be_held_against() -> None:
    cells = tuple(
        CellPlan("speculation", setting=setting, depth=depth) for setting in ("off", "1", "2") for depth in (100, 8000)
    )
    fitted = fit(ExperimentPlan("speculation", cells), PACE, 180)
    assert [(cell.setting, cell.depth) for cell in fitted.plan.left_out] == [("2", 8000), ("1", 8000)]


@given(st.floats(0.1, 1e6))
def test_at_least_one_cell_is_left_and_cells_keep_their_order(budget: float) -> None:
    depths = [cell.depth for cell in fit(PLAN, PACE, budget).plan.cells]
    assert depths
    assert depths == sorted(depths)


def test_of_rising_rates_the_highest_are_given_up_first() -> None:
    rates = ExperimentPlan("saturate", tuple(CellPlan("saturate", rate=rate, trials=1) for rate in (0.5, 1.0, 2.0)))
    assert [cell.rate for cell in fit(rates, PACE, 26).plan.left_out] == [2.0]


def test_what_the_whole_plan_and_every_cell_would_need_is_told() -> None:
    fitted = fit(PLAN, PACE, 150)
    assert fitted.plan.left_out
    assert fit(PLAN, PACE, fitted.whole_s).plan == PLAN
    every = fit(PLAN, PACE, fitted.every_s)
    assert not every.plan.left_out
    assert [cell.trials for cell in every.plan.cells] == [2, 2, 2]


def test_half_of_a_comparison_is_never_given_up() -> None:
    pair = ExperimentPlan("ab", tuple(CellPlan("ab", setting=side, trials=8) for side in "ab"), whole=True)
    fitted = fit(pair, PACE, 0.1)
    assert [cell.trials for cell in fitted.plan.cells] == [2, 2]
    assert fitted.plan.left_out == ()
