from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gearshift.advice.bandwidths import Bandwidths, card_here, host_device, occupied
from gearshift.domain.device import CPU_DEVICE, Device, MemoryReading
from gearshift.domain.units import GIB
from gearshift.planner.gpus import MeasuredBandwidth

SEEN = MeasuredBandwidth(21.5e9, "2 threads reading", 1_790_000_000.0)
NEW_CARD = Device("GPU-new", 0, "NVIDIA GeForce RTX 9090", 48 * GIB)
HOST = Device(CPU_DEVICE, None, "host memory", 64 * GIB)


@pytest.fixture
def kept(tmp_path: Path) -> Bandwidths:
    found = Bandwidths(tmp_path / "new folder" / "bandwidths.json")
    found.keep(host_device(), SEEN)
    return found


def test_the_host_s_memory_is_known_once_it_was_measured(kept: Bandwidths, tmp_path: Path) -> None:
    card = card_here(Bandwidths(tmp_path / "new folder" / "bandwidths.json"), [HOST])
    assert card is not None
    assert (card.bandwidth, card.flops) == (21.5e9, None)
    assert card.source == "measured here on 2026-09-21: 2 threads reading"
    assert "core" in card.name
    assert kept.of(HOST) is None  # under its own name only


def test_another_processor_or_another_ram_is_not_what_was_measured(kept: Bandwidths) -> None:
    assert kept.of(host_device()) == SEEN
    assert kept.of(replace(host_device(), name="AMD EPYC, 4 cores, 64 GiB")) is None


def test_a_card_that_nothing_tells_of_is_what_was_measured(kept: Bandwidths) -> None:
    assert card_here(kept, [NEW_CARD]) is None
    kept.keep(NEW_CARD, replace(SEEN, bytes_s=2000e9))
    card = card_here(kept, [NEW_CARD])
    assert card is not None
    assert (card.name, card.memory_gib, card.bandwidth) == (NEW_CARD.name, 48, 2000e9)


def test_a_data_sheet_and_a_driver_win_over_a_measurement_that_stands_beside_them(kept: Bandwidths) -> None:
    for device, told in ((replace(NEW_CARD, name="NVIDIA GeForce RTX 3090"), 936e9),
                         (replace(NEW_CARD, bandwidth=1800e9), 1800e9)):  # fmt: skip
        kept.keep(device, replace(SEEN, bytes_s=850e9))
        card = card_here(kept, [device])
        assert card is not None
        assert card.bandwidth == told
        assert card.measured is not None
        assert card.measured.bytes_s == 850e9


def test_the_card_wanted_is_the_one_that_is_known(kept: Bandwidths) -> None:
    second = Device("GPU-b", 1, "NVIDIA L4", 24 * GIB)
    found = card_here(kept, [NEW_CARD, second], "GPU-b")
    assert found is not None
    assert found.name == "L4"
    assert card_here(kept, [NEW_CARD, second], "gpu0") is None
    assert card_here(kept, []) is None


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"cpu": 1}', '{"cpu": {}}', '{"cpu": {"bytes_s": "9", "method": "", "at": 0}}',
     '{"cpu": {"bytes_s": 0, "method": "", "at": 0}}', "\xff"],
)  # fmt: skip
def test_a_damaged_file_is_as_none_and_is_written_anew(tmp_path: Path, content: str) -> None:
    file = tmp_path / "b.json"
    file.write_bytes(content.encode("latin-1"))
    kept = Bandwidths(file)
    assert kept.of(NEW_CARD) is None
    kept.keep(NEW_CARD, SEEN)
    assert Bandwidths(file).of(NEW_CARD) == SEEN


def test_a_folder_that_cannot_be_written_keeps_it_for_this_life(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    kept = Bandwidths(tmp_path / "file" / "b.json")
    kept.keep(NEW_CARD, SEEN)
    assert kept.of(NEW_CARD) == SEEN


@pytest.mark.parametrize(
    ("by_pid", "used", "busy"),
    [
        ({}, 0, False),
        ({11: GIB // 2, 12: GIB // 3}, 2 * GIB, False),  # a desktop
        ({11: 20 * GIB}, 20 * GIB, True),
        ({77: 1000}, 1000, True),  # ours, however small
        ({77: 0}, 500, True),  # a driver that may not say how much
        ({}, 8 * GIB, True),  # nor who
    ],
)
def test_a_card_with_an_engine_on_it_is_left_alone(by_pid: dict[int, int], used: int, *, busy: bool) -> None:
    found = occupied(MemoryReading("GPU-a", 24 * GIB, used, by_pid), {77})
    assert (found is not None) is busy
    assert found is None or "unload" in found
