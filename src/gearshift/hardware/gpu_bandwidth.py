"""Bandwidth of a GPU's memory, by copying on it; done by a child process, so that a driver's fault is not ours."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from signal import Signals

from gearshift.domain.errors import GearshiftError
from gearshift.domain.units import format_bytes

_PROGRAM = "gearshift.hardware.cuda_copy"
_PATIENCE_S = 60.0  # a driver that has to wake a card takes some seconds


@dataclass(frozen=True, slots=True)
class GpuBandwidth:
    """Bytes/s read and written together by copies of ``copied_bytes`` on the card."""

    bytes_s: float
    copied_bytes: int

    @property
    def method(self) -> str:
        return f"copies of {format_bytes(self.copied_bytes)} on the card, read and write counted, best of 5"


def measure_gpu_bandwidth(device: str, env: Mapping[str, str], *, patience_s: float = _PATIENCE_S) -> GpuBandwidth:
    """Time copies on the GPU with UUID ``device``, which nobody else should be using. Takes about two seconds.

    Raises GearshiftError with the driver's own reason where it cannot be done.
    """
    seen = {**env, "CUDA_VISIBLE_DEVICES": device}
    command = [sys.executable, "-m", _PROGRAM]
    try:
        done = subprocess.run(command, env=seen, capture_output=True, text=True, timeout=patience_s, check=False)
    except subprocess.TimeoutExpired as error:
        raise _failed(device, f"the driver did not answer within {patience_s:g} s") from error
    answer = _answer(done.stdout)
    if done.returncode == 0 and "bytes_s" in answer:
        return GpuBandwidth(float(answer["bytes_s"]), int(answer["copied_bytes"]))
    raise _failed(device, str(answer.get("error") or _ending(done)))


def _answer(text: str) -> Mapping[str, float | str]:
    """The last line; a driver may print others before it."""
    try:
        found = json.loads(text.splitlines()[-1])
    except (IndexError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _ending(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode < 0:
        return f"the driver ended the measuring process by {Signals(-done.returncode).name}"
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"the measuring process ended with status {done.returncode}"


def _failed(device: str, why: str) -> GearshiftError:
    return GearshiftError(f"the memory of {device} was not measured: {why}", hint="give its bandwidth: --gpu GiB:GB/s")
