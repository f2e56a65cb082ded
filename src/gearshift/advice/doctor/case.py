"""The facts that checks judge: one variant with all that could be learned about it, and the box it runs on. Values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gearshift.artifacts import ModelFacts, Rendering, Template
from gearshift.domain.device import Device, MemoryReading
from gearshift.domain.engine import EngineInstall, FlagMap
from gearshift.domain.errors import Problem
from gearshift.domain.provenance import GpuSettings
from gearshift.domain.settings import Settings
from gearshift.domain.variant import ArgValue, Variant
from gearshift.engines.arguments import given_value
from gearshift.engines.flags import find_flag, plain_name
from gearshift.hardware import HostMemory


@dataclass(frozen=True, slots=True)
class EngineProcess:
    """A process that looks like an engine. ``held`` are bytes of device memory by device id, empty where none."""

    pid: int
    command: str
    parented: bool  # its parent is the server that should own it, not init
    ours: bool  # carries the marker of a Gearshift that is alive
    held: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Box:
    """The machine. None = could not be told.

    ``peers`` maps pairs of GPU indices (lower first) to whether one may read the other's memory directly.
    """

    devices: tuple[Device, ...] = ()
    readings: Mapping[str, MemoryReading] = field(default_factory=dict)
    peers: Mapping[tuple[int, int], bool] = field(default_factory=dict)
    compute: Mapping[str, float] = field(default_factory=dict)  # compute capability by device id: 8.6, 12.0
    settings: Mapping[str, GpuSettings] = field(default_factory=dict)  # by device id
    memory: HostMemory | None = None
    shm_bytes: int | None = None  # size of /dev/shm
    memlock_bytes: int | None = None  # what may be locked in RAM; None = no limit
    nvcc: Path | None = None  # on PATH
    cuda_folder: Path | None = None  # a toolkit at one of its usual places
    wsl: bool = False
    processes: tuple[EngineProcess, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def gpus(self) -> tuple[Device, ...]:
        return tuple(device for device in self.devices if device.index is not None)


@dataclass(frozen=True, slots=True)
class Pins:
    """What a lock says about a variant, and what the box has now."""

    engine_version: str | None = None
    engine_digest: str | None = None
    template_sha256: str | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)  # file as the lock names it -> bytes promised
    found: Mapping[str, int | None] = field(default_factory=dict)  # likewise -> bytes on disk, None = absent


@dataclass(frozen=True, slots=True)
class Case:
    """One variant under examination. None = there is none, or it could not be read; ``trouble`` then says why."""

    variant: Variant
    flags: FlagMap
    box: Box = field(default_factory=Box)
    install: EngineInstall | None = None
    engine_trouble: str | None = None
    engine_fix: str | None = None
    problems: tuple[Problem, ...] = ()  # what the flag check said about this variant
    weights: Path | None = None  # where the model's files are on this box
    model: ModelFacts | None = None
    model_trouble: str | None = None
    checkpoint: tuple[str, ...] | None = None  # the folder's files that hold weights of any format; None = no folder
    draft: ModelFacts | None = None
    not_quantized: tuple[str, ...] | None = None  # the checkpoint's list of modules left alone; None = not quantized
    weight_bits: int | None = None  # of the checkpoint's quantized weights; None = not quantized, or not said
    truncation: int | None = None  # tokens at which tokenizer.json cuts
    image_tokens: int | None = None  # at most, of the largest image that is let through; None = no limit, or no images
    template: Template | None = None
    template_trouble: str | None = None
    rendering: Rendering | None = None
    pins: Pins | None = None

    def arg(self, name: str) -> ArgValue | None:
        """What the variant gives for an engine's flag, under whatever alias; None when it does not."""
        return given_value(self.flags, self.variant.args, name)

    def on(self, name: str) -> bool | None:
        """A switch: True or False as given (a bare flag is on, its ``no-`` form off), None when it is not."""
        for key, value in self.variant.args.items():
            plain, flag = plain_name(key), find_flag(self.flags, key)
            if plain == f"no-{name}":
                return value is False
            if plain == name or (flag is not None and flag.name == name):
                return value is not False
        return None

    @property
    def kind(self) -> str:
        return self.variant.engine.kind

    @property
    def version(self) -> str | None:
        """The installed engine's, else the one asked for; None = unknown."""
        return self.install.version if self.install else self.variant.engine.version

    @property
    def gpus(self) -> tuple[Device, ...]:
        """The GPUs it runs on: those it names, else every one of the box."""
        wanted = self.variant.gpus
        return tuple(gpu for gpu in self.box.gpus if wanted is None or gpu.index in wanted or gpu.id in wanted)

    @property
    def env(self) -> Mapping[str, str]:
        """The environment the engine would see of what matters here: the box's, then the variant's."""
        return {**self.box.env, **self.variant.env}


@dataclass(frozen=True, slots=True)
class Setup:
    """What is judged as a whole: the settings (None = no configuration) and the box."""

    box: Box
    settings: Settings | None = None
    warnings: tuple[Problem, ...] = ()  # of loading the configuration
