"""The host's memory, clamped to what its cgroup allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from gearshift.domain.units import GIB
from gearshift.hardware import core_count, host_memory, load_average

MEMINFO = f"""MemTotal:       {64 * 1024**2} kB
MemFree:        {8 * 1024**2} kB
MemAvailable:   {48 * 1024**2} kB
SwapTotal:      {4 * 1024**2} kB
SwapFree:       {3 * 1024**2} kB
HugePages_Total:       0
"""


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A /proc of a box with 64 GiB."""
    folder = tmp_path / "proc"
    (folder / "self").mkdir(parents=True)
    (folder / "meminfo").write_text(MEMINFO)
    return folder


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_without_a_limit_the_host_is_what_it_is(proc: Path, tmp_path: Path) -> None:
    memory = host_memory(proc=proc, cgroups=tmp_path / "cgroup")
    assert (memory.total_bytes, memory.available_bytes) == (64 * GIB, 48 * GIB)
    assert (memory.swap_total_bytes, memory.swap_free_bytes, memory.limit_bytes) == (4 * GIB, 3 * GIB, None)


def test_the_tightest_limit_on_the_way_up_counts(proc: Path, tmp_path: Path) -> None:
    root = tmp_path / "cgroup"
    write(proc / "self/cgroup", "0::/user.slice/gearshift.service\n")
    write(root / "user.slice/gearshift.service/memory.max", "max\n")
    write(root / "user.slice/memory.max", f"{16 * GIB}\n")
    write(root / "user.slice/memory.current", f"{10 * GIB}\n")
    memory = host_memory(proc=proc, cgroups=root)
    assert (memory.total_bytes, memory.available_bytes, memory.limit_bytes) == (16 * GIB, 6 * GIB, 16 * GIB)


def test_a_limit_of_the_first_cgroup_version_counts(proc: Path, tmp_path: Path) -> None:
    root = tmp_path / "cgroup"
    write(proc / "self/cgroup", "5:cpu:/\n4:memory:/box\n0::/\n")
    write(root / "memory/memory.limit_in_bytes", "9223372036854771712\n")
    write(root / "memory/box/memory.limit_in_bytes", f"{8 * GIB}\n")
    write(root / "memory/box/memory.usage_in_bytes", f"{9 * GIB}\n")
    memory = host_memory(proc=proc, cgroups=root)
    assert (memory.total_bytes, memory.available_bytes) == (8 * GIB, 0)


def test_file_cache_that_can_be_given_up_is_available(proc: Path, tmp_path: Path) -> None:
    root = tmp_path / "cgroup"
    write(proc / "self/cgroup", "0::/box\n")
    write(root / "box/memory.max", f"{16 * GIB}\n")
    write(root / "box/memory.current", f"{15 * GIB}\n")
    write(root / "box/memory.stat", f"anon {3 * GIB}\nactive_file {2 * GIB}\ninactive_file {10 * GIB}\n")
    assert host_memory(proc=proc, cgroups=root).available_bytes == 11 * GIB


def test_this_box_has_memory_cores_and_a_load() -> None:
    memory = host_memory()
    assert 0 < memory.available_bytes <= memory.total_bytes
    assert core_count() >= 1
    assert load_average() >= 0
