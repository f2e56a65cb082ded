from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.stats.crossing import crossing

# Two cards' decode rates by depth, with and without three drafted tokens, as a user published them (R2-07 to R2-10).
DEPTHS = (2_000, 8_000, 32_000, 60_000)
ONE_CARD = ((66, 107), (65, 100), (61, 62), (57, 46))
TWO_CARDS = ((99, 105), (96, 117), (89, 72), (81, 45))


def ratios(rates: tuple[tuple[int, int], ...]) -> list[tuple[float, float]]:
    return [(depth, on / off) for depth, (off, on) in zip(DEPTHS, rates, strict=True)]


def test_on_one_card_drafting_stops_paying_where_its_user_found_it() -> None:
    found = crossing(ratios(ONE_CARD))
    assert found is not None
    assert 32_000 <= found <= 60_000  # R2-13


def test_on_two_cards_it_stops_paying_earlier() -> None:
    found = crossing(ratios(TWO_CARDS))
    assert found is not None
    assert 8_000 <= found <= 32_000  # R2-14


def test_by_requests_in_flight_it_stops_between_the_last_gain_and_the_first_loss() -> None:
    found = crossing([(1, 1.9), (8, 1.05), (12, 0.97)])  # R2-04, R2-05; by how much it lost at 12 was not published
    assert found is not None
    assert 8 <= found <= 12  # R2-17


@pytest.mark.parametrize(
    ("rates", "changes"), [(ONE_CARD, (62, 54, 2, -19)), (TWO_CARDS, (6, 22, -19, -44))], ids=["R2-11", "R2-12"]
)
def test_the_published_changes_follow_from_the_published_rates(
    rates: tuple[tuple[int, int], ...], changes: tuple[int, ...]
) -> None:
    # The report says -20 % for the last of R2-11; its own rates give -19.3 %.
    assert [round((ratio - 1) * 100) for _, ratio in ratios(rates)] == list(changes)


def test_what_never_falls_has_no_crossing() -> None:
    assert crossing([(1, 1.2), (8, 1.1)]) is None
    assert crossing([(1, 0.9), (8, 0.8)]) is None
    assert crossing([]) is None


levels = st.lists(st.floats(1, 1e6), min_size=2, max_size=6, unique=True).map(sorted)


@given(levels, st.data())
def test_a_crossing_lies_between_the_two_levels_that_it_parts(points: list[float], data: st.DataObject) -> None:
    given_ratios = [data.draw(st.floats(0.1, 10)) for _ in points]
    found = crossing(list(zip(points, given_ratios, strict=True)))
    falls = [
        (low, high)
        for (low, before), (high, after) in zip(
            zip(points, given_ratios, strict=True), zip(points[1:], given_ratios[1:], strict=True), strict=False
        )
        if before >= 1 > after
    ]
    assert (found is None) == (not falls)
    if found is not None:
        low, high = falls[0]
        assert low * (1 - 1e-9) <= found <= high * (1 + 1e-9)
