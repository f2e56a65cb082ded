"""What makes a running variant the same again: engine, command line, environment, files, hardware and its settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WeightFile:
    """One file of weights that a command line names. ``sha256`` None: too large to be read for it, and in no lock."""

    file: str
    bytes: int
    sha256: str | None


@dataclass(frozen=True, slots=True)
class EngineBuild:
    """The engine as the toolchain found it when the variant was started."""

    kind: str
    version: str | None
    digest: str | None  # sha256 of the binary, where the version alone does not identify it


@dataclass(frozen=True, slots=True)
class GpuSettings:
    """What a GPU is allowed, by its makers and by who runs it; None = the card or the driver does not say.

    Clocks locked with ``nvidia-smi -lgc`` cannot be asked for: the clocks that each trial saw show them.
    """

    max_clock_mhz: int | None = None  # of the multiprocessors
    max_memory_clock_mhz: int | None = None
    application_clock_mhz: int | None = None  # what ``nvidia-smi -ac`` set, or the card's default
    application_memory_clock_mhz: int | None = None
    power_limit_w: float | None = None  # what ``nvidia-smi -pl`` set, or the default
    default_power_limit_w: float | None = None


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU of the box and its settings."""

    name: str
    bytes: int
    settings: GpuSettings


@dataclass(frozen=True, slots=True)
class Hardware:
    """The box that an engine runs on: what it is and how it is set, no reading of a moment. None = it does not say."""

    gpus: Sequence[Gpu]
    driver: str | None
    cpu: str
    cpu_governor: str | None  # several, joined by a comma, where cores differ
    cpu_max_mhz: int | None  # the fastest core's limit as it is set
    cores: int  # that Gearshift, and so its engines, may run on
    ram_bytes: int | None
    kernel: str


@dataclass(frozen=True, slots=True)
class Provenance:
    """One running variant. Only what stays the same from one start to the next; null is what could not be read.

    The port is ``PORT`` in ``argv`` and ``env``; secrets are hidden in the first and left out of the second, which has
    the variables that engines read and those that the variant sets.
    """

    gearshift: str  # the server's version
    variant: str
    engine: EngineBuild
    argv: Sequence[str] | None
    env: Mapping[str, str] | None
    weights: Sequence[WeightFile] | None
    template_sha256: str | None
    hardware: Hardware
