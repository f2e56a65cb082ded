from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gearshift.advice.calibrations import KEPT, Calibrations
from gearshift.planner.calibration import Calibration

LEARNED = Calibration(lines={"cpu": {"weights": 5}}, totals={"cpu": 9}, block_size=16)


def test_what_is_kept_is_there_for_the_next_server(tmp_path: Path) -> None:
    Calibrations(tmp_path / "c.json").keep("digest", LEARNED)
    assert Calibrations(tmp_path / "c.json").of("digest") == LEARNED
    assert Calibrations(tmp_path / "c.json").of("another") is None


@pytest.mark.parametrize("content", ["", "[]", '{"a": 1}', '{"a": {"totals": {"cpu": -1}}}', "\xff"])
def test_a_damaged_file_is_as_none_and_is_written_anew(tmp_path: Path, content: str) -> None:
    file = tmp_path / "c.json"
    file.write_bytes(content.encode("latin-1"))
    calibrations = Calibrations(file)
    assert calibrations.of("a") is None
    calibrations.keep("b", LEARNED)
    assert Calibrations(file).of("b") == LEARNED


def test_a_folder_that_cannot_be_written_keeps_it_for_this_life(tmp_path: Path) -> None:
    calibrations = Calibrations(tmp_path / "missing" / "c.json")
    calibrations.keep("a", LEARNED)
    assert calibrations.of("a") == LEARNED


def test_only_the_newest_launches_are_remembered(tmp_path: Path) -> None:
    calibrations = Calibrations(tmp_path / "c.json")
    for number in range(KEPT + 3):
        calibrations.keep(str(number), LEARNED)
    assert calibrations.of("2") is None
    assert calibrations.of("3") == LEARNED


def test_starts_that_end_together_are_all_kept(tmp_path: Path) -> None:
    calibrations = Calibrations(tmp_path / "c.json")
    digests = [str(number) for number in range(KEPT)]
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda digest: calibrations.keep(digest, LEARNED), digests))
    finally:
        sys.setswitchinterval(usual)
    again = Calibrations(tmp_path / "c.json")
    assert [digest for digest in digests if again.of(digest) is None] == []
