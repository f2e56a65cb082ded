"""When a ledger answers yes, no, or cannot tell."""

from __future__ import annotations

import pytest

from gearshift.planner.ledger import DeviceLedger, Line, Plan, verdict


def ledger(planned: int, error: int, total: int | None) -> DeviceLedger:
    return DeviceLedger("GPU-a", total, (Line("exact part", planned), Line("modelled part", 0, "modelled", error)))


@pytest.mark.parametrize(
    ("planned", "error", "total", "answer"),
    [
        (80, 10, 100, True),
        (90, 10, 100, True),
        (91, 10, 100, None),
        (110, 10, 100, None),
        (111, 10, 100, False),
        (100, 0, 100, True),
        (101, 0, 100, False),
        (1, 0, None, None),
    ],
)
def test_an_answer_is_given_only_where_the_error_cannot_turn_it(
    planned: int, error: int, total: int | None, answer: object
) -> None:
    assert ledger(planned, error, total).fits is answer


YES, NO, UNKNOWN = ledger(1, 0, 2), ledger(3, 0, 2), ledger(1, 0, None)


@pytest.mark.parametrize(
    ("ledgers", "refusals", "complete", "answer"),
    [
        ((YES, YES), (), "whole", True),
        ((YES, NO), (), "whole", False),
        ((YES, UNKNOWN), (), "whole", None),
        ((YES,), (), "partly", None),
        ((NO,), (), "partly", False),  # what is known alone is already too much
        ((YES,), ("the engine would refuse",), "whole", False),
        ((), (), "whole", None),
    ],
)
def test_one_device_or_refusal_decides_for_all(
    ledgers: tuple[DeviceLedger, ...], refusals: tuple[str, ...], complete: str, answer: object
) -> None:
    assert verdict(ledgers, refusals, complete=complete == "whole") is answer


def test_bytes_by_device_are_told_only_of_a_complete_plan() -> None:
    assert Plan(fits=None, ledger=(YES,)).bytes_by_device == {"GPU-a": 1}
    assert Plan(fits=None, ledger=(YES,), complete=False).bytes_by_device is None
    assert Plan(fits=None).bytes_by_device is None
