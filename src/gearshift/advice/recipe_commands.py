"""A variant as the plain command that starts its engine, for a shell. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from gearshift.advice.recipe_settings import is_secret
from gearshift.domain.device import CPU_DEVICE
from gearshift.domain.engine import EngineInstall, FlagMap
from gearshift.domain.launch import Placement
from gearshift.domain.variant import Variant
from gearshift.engines import launch_spec

_PROGRAMS = {"vllm": ("vllm", "serve"), "llama.cpp": ("llama-server",)}


def shell_command(variant: Variant, flags: FlagMap, *, port: int, on_gpu: bool, revision: str | None = None) -> str:
    """The start Gearshift would make, as lines that can be pasted: environment first, then a flag a line.

    ``revision`` pins weights that the engine finds by hub id. Variables that hold secrets are named in a comment only.
    GPUs are put by index in the order of the PCI bus, which is nvidia-smi's.
    """
    if revision and variant.engine.kind == "vllm":
        variant = replace(variant, args={"revision": revision, **variant.args})
    kind = variant.engine.kind
    install = EngineInstall(kind, flags.version, _PROGRAMS.get(kind, ()), Path("/"), managed=False, flags=flags)
    gpus = tuple(map(str, variant.gpus or ()))
    devices = gpus or (("gpu",) if on_gpu else (CPU_DEVICE,))
    spec = launch_spec(variant, Placement(devices), install, port=port, folder=Path("/"), base_env={})
    shown = [f"# {variant.id}: {kind} {flags.version or ''}".rstrip(), *_secrets(variant)]
    return "\n".join([*shown, " \\\n  ".join([*_environment(variant, gpus), *_lines(spec.argv)])])


def _secrets(variant: Variant) -> Iterator[str]:
    for name in variant.env:
        if is_secret(name):
            yield f"# needs {name} in the environment"


def _environment(variant: Variant, gpus: Sequence[str]) -> Iterator[str]:
    """Assignments before the command; a name is no shell word, so only values are quoted."""
    if gpus:
        yield f"CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={shlex.quote(','.join(gpus))}"
    for name, value in variant.env.items():
        if not is_secret(name):
            yield f"{name}={shlex.quote(value)}"


def _lines(argv: Sequence[str]) -> list[str]:
    """The program with what it takes first, then each flag with its values."""
    lines: list[list[str]] = [[]]
    for word in argv:
        if word.startswith("--"):
            lines.append([])
        lines[-1].append(shlex.quote(word))
    return [" ".join(words) for words in lines if words]
