"""A calibration survives being kept as JSON, and a damaged one says what is wrong with it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gearshift.planner.calibration import Calibration

SIZES = st.integers(0, 2**50)
CALIBRATIONS = st.builds(
    Calibration,
    lines=st.dictionaries(st.text(), st.dictionaries(st.text(), SIZES)),
    totals=st.dictionaries(st.text(), SIZES),
    block_size=st.none() | st.integers(1, 4096),
    bytes_per_block=st.none() | st.integers(1, 2**40),
)


@settings(deadline=None)
@given(CALIBRATIONS)
def test_what_was_kept_is_read_back(calibration: Calibration) -> None:
    assert Calibration.from_json(json.loads(json.dumps(calibration.to_json()))) == calibration


def test_an_older_release_reads_what_it_knows() -> None:
    assert Calibration.from_json({"block_size": 16, "of a later release": [1]}) == Calibration(block_size=16)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "a calibration must be an object, not []"),
        ({"lines": {"gpu0": 3}}, "lines of gpu0 must be an object, not 3"),
        ({"lines": {"gpu0": {"compute": "1"}}}, "lines of gpu0: compute must be a number of bytes, not '1'"),
        ({"totals": {"gpu0": -1}}, "totals: gpu0 must be a number of bytes, not -1"),
        ({"totals": {"gpu0": True}}, "totals: gpu0 must be a number of bytes, not True"),
        ({"bytes_per_block": 0}, "bytes_per_block must be more than 0"),
    ],
)
def test_a_damaged_calibration_names_its_damage(document: object, message: str) -> None:
    with pytest.raises(ValueError, match="must") as raised:
        Calibration.from_json(document)
    assert str(raised.value) == message
