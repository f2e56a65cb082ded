"""The table of checks in the docs is made from the checks."""

from __future__ import annotations

from pathlib import Path

from gearshift.advice.doctor import BOX_CHECKS, VARIANT_CHECKS
from gearshift.advice.doctor.table import refreshed

PAGE = Path(__file__).parents[2] / "docs/doctor.md"


def test_the_table_of_checks_is_current() -> None:
    assert refreshed(PAGE.read_text()) == PAGE.read_text(), f"run: python -m gearshift.advice.doctor.table {PAGE}"


def test_every_check_has_a_row() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| [")]
    assert len(rows) == len(VARIANT_CHECKS) + len(BOX_CHECKS)
