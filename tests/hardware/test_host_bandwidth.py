"""Bandwidth of the host's memory by reading it: the best stretch, and whether others had the cores meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.domain.units import MIB
from gearshift.hardware.host_bandwidth import HostBandwidth, Stamp, best_stretch, cache_bytes, measure_host_bandwidth


def steady(rate: int, seconds: int, *, start: float = 0.0, core_share: float = 1.0) -> list[Stamp]:
    """A thread that reads ``rate`` bytes in every second."""
    return [Stamp(start + at, at * core_share, at * rate) for at in range(seconds + 1)]


def test_the_rates_of_threads_add_up() -> None:
    rate, share = best_stretch([steady(100, 10), steady(40, 10)], 2)
    assert rate == pytest.approx(140)
    assert share == pytest.approx(1)


def test_only_the_time_in_which_all_read_counts() -> None:
    """One that begins late is not credited with the others' head start, which had the memory to themselves."""
    early = [Stamp(0, 0, 0), Stamp(4, 4, 4000), Stamp(10, 10, 4600)]
    late = steady(100, 6, start=4.0)
    assert best_stretch([early, late], 2)[0] == pytest.approx(200)


def test_the_best_stretch_is_found_wherever_it_is() -> None:
    slow_then_fast = [Stamp(0, 0, 0), Stamp(5, 5, 50), Stamp(7, 7, 450), Stamp(10, 10, 480)]
    assert best_stretch([slow_then_fast], 2)[0] == pytest.approx(200)


def test_cores_that_others_took_are_seen_in_that_stretch() -> None:
    rate, share = best_stretch([steady(100, 10), steady(50, 10, core_share=0.5)], 2)
    assert rate == pytest.approx(150)
    assert share == pytest.approx(0.75)
    assert not HostBandwidth(rate, share, 2, MIB).quiet
    assert HostBandwidth(rate, 0.95, 2, MIB).quiet


@given(
    rates=st.lists(st.integers(1, 10**12), min_size=1, max_size=8),
    window=st.floats(0.01, 30),
    skew=st.floats(0, 3),
)
def test_steady_threads_have_one_rate_through_any_window(rates: list[int], window: float, skew: float) -> None:
    tracks = [steady(rate, 10, start=skew * place / len(rates)) for place, rate in enumerate(rates)]
    rate, share = best_stretch(tracks, window)
    assert rate == pytest.approx(sum(rates), rel=1e-6)
    assert share == pytest.approx(1)


def test_this_box_is_read_far_beyond_its_caches() -> None:
    found = measure_host_bandwidth(seconds=0.2)
    assert found.bytes_s > 0
    assert 0 < found.core_share <= 1.05
    assert found.buffer_bytes >= 8 * (cache_bytes() or 0)
    assert f"{found.threads} thread" in found.method


def test_shared_caches_are_counted_once(tmp_path: Path) -> None:
    for cpu in range(4):
        for level, shared, size in ((1, cpu, 32), (3, cpu // 2, 16384)):
            folder = tmp_path / f"cpu{cpu}/cache/index{level}"
            folder.mkdir(parents=True)
            (folder / "level").write_text(f"{level}\n")
            (folder / "shared_cpu_list").write_text(f"{shared}\n")
            (folder / "size").write_text(f"{size}K\n")
    assert cache_bytes(tmp_path) == 2 * 16 * MIB
    assert cache_bytes(tmp_path / "absent") is None
