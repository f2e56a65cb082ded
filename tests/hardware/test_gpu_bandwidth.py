"""Bandwidth of a card by copies on it: through a driver of our own making, in a process that may die of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fakes.cuda import build_libcuda, cuda_env
from gearshift.domain.errors import GearshiftError
from gearshift.domain.units import MIB
from gearshift.hardware.gpu_bandwidth import measure_gpu_bandwidth

CARD = "GPU-12345678-aaaa-bbbb-cccc-1234567890ab"


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_libcuda(tmp_path_factory.mktemp("driver"))


def test_a_copy_counts_what_it_reads_and_what_it_writes(driver: Path) -> None:
    found = measure_gpu_bandwidth(CARD, os.environ | cuda_env(driver, f"{CARD} 936 24000"))
    assert found.bytes_s == pytest.approx(936e9, rel=1e-3)
    assert found.copied_bytes == 512 * MIB
    assert "read and write counted" in found.method


def test_a_card_with_little_room_is_measured_with_smaller_buffers_or_not_at_all(driver: Path) -> None:
    found = measure_gpu_bandwidth(CARD, os.environ | cuda_env(driver, f"{CARD} 300 1200"))
    assert found.copied_bytes == 300 * MIB
    with pytest.raises(GearshiftError, match="900 MiB of the card are free, 1 GiB have to be"):
        measure_gpu_bandwidth(CARD, os.environ | cuda_env(driver, f"{CARD} 300 900"))


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("GPU-other 936 24000", "cuInit failed: no CUDA-capable device is detected"),
        ("nonsense", "cuInit failed: status 999"),
        (f"{CARD} 936 24000 still", "10 copies took 0.0 ms"),
        (f"{CARD} 936 24000 crash", "the driver ended the measuring process by SIGSEGV"),
    ],
)
def test_what_the_driver_says_or_does_is_the_reason(driver: Path, script: str, why: str) -> None:
    with pytest.raises(GearshiftError, match="was not measured") as failure:
        measure_gpu_bandwidth(CARD, os.environ | cuda_env(driver, script))
    assert why in failure.value.message
    assert CARD in failure.value.message
    assert failure.value.hint


def test_a_driver_that_hangs_is_left_behind(driver: Path) -> None:
    with pytest.raises(GearshiftError, match="did not answer within 2 s"):
        measure_gpu_bandwidth(CARD, os.environ | cuda_env(driver, f"{CARD} 936 24000 hang"), patience_s=2)


def test_a_box_without_a_driver_says_so(tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_text("no library")  # found before any that the box may have
    with pytest.raises(GearshiftError, match="library cannot be loaded"):
        measure_gpu_bandwidth(CARD, os.environ | cuda_env(tmp_path, ""))


def test_a_driver_that_lacks_a_call_is_named_by_it(tmp_path: Path) -> None:
    source = tmp_path / "old.c"
    source.write_text("int cuInit(unsigned flags) { return 0; }")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(tmp_path / "libcuda.so.1"), str(source)], check=True)
    with pytest.raises(GearshiftError, match="the CUDA driver has no cuDeviceGet"):
        measure_gpu_bandwidth(CARD, os.environ | cuda_env(tmp_path, ""))


def test_the_measuring_process_has_one_line_for_a_program(driver: Path) -> None:
    env = os.environ | cuda_env(driver, f"{CARD} 1000 24000") | {"CUDA_VISIBLE_DEVICES": CARD}
    command = [sys.executable, "-m", "gearshift.hardware.cuda_copy"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.count("\n") == 1
    assert done.stdout.startswith('{"bytes_s": ')
