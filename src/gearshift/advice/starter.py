"""A first configuration, written from what this box has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from gearshift.advice.gguf_files import find_gguf
from gearshift.config.writing import Block, flow, yaml_text
from gearshift.domain.device import CPU_DEVICE, Device
from gearshift.domain.engine import EngineInstall
from gearshift.domain.units import format_bytes
from gearshift.domain.variant import EngineKind

__all__ = ["find_gguf", "starter_config"]

_PART = re.compile(r"-\d{5}-of-\d{5}$")
_QUANT = re.compile(r"[-_.]((?:UD-)?(?:I?Q\d+(?:_[A-Z0-9]+)*|BF16|F16|F32|MXFP4(?:_MOE)?|TQ\d_\d))$", re.IGNORECASE)
_CONTEXT = "8K"  # small enough for any box; the comment beside it says how to raise it


def starter_config(installs: Sequence[EngineInstall], gguf_files: Sequence[Path], devices: Sequence[Device]) -> str:
    """A commented `gearshift.yaml` that loads as it stands: a variant for each file where llama.cpp is installed.

    Where something is missing (no engine, no weights) the comments say how to get it.
    """
    lines = [*_head(installs, devices), "listen: 127.0.0.1:8888", ""]
    engine = _engine(installs, "llama.cpp")
    models = _models(gguf_files, engine) if engine else {}
    if models:
        lines += [*_advice(), yaml_text({"models": models}).rstrip()]
    else:
        lines += [*_missing(gguf_files, has_llamacpp=engine is not None), "models: {}"]
    return "\n".join([*lines, *_vllm(installs), ""])


def _head(installs: Sequence[EngineInstall], devices: Sequence[Device]) -> Iterator[str]:
    yield "# Gearshift: one endpoint for every way to run your models."
    yield "# Every key is in docs/configuration.md."
    for device in devices:
        name = device.id if device.id == CPU_DEVICE else f"GPU {device.index}, {device.name}"
        yield f"# Device {name}: {format_bytes(device.total_bytes)}"
    for install in installs:
        yield f"# Engine {install.kind} {install.version or '(version unknown)'}: {install.path}"
    yield ""


def _advice() -> Iterator[str]:
    yield "# Clients ask for a model by name, or for model:variant."
    yield f"# context is {_CONTEXT} at first: raise it until the memory is used; left out,"
    yield "# llama.cpp takes what the model was trained for. args: takes any flag of the"
    yield "# engine under its long name. `gearshift config check` judges a change."


def _missing(gguf_files: Sequence[Path], *, has_llamacpp: bool) -> Iterator[str]:
    if not has_llamacpp:
        yield "# No llama.cpp was found: `gearshift engine install llama.cpp` builds one."
    if not gguf_files:
        yield "# No GGUF file was found. Write for example:"
        yield "#   models:"
        yield "#     my-model:"
        yield "#       variants:"
        yield f"#         q8: {{engine: llama.cpp, weights: ~/models/my-model-Q8_0.gguf, context: {_CONTEXT}}}"
    for file in gguf_files:
        yield f"# Found: {flow(str(file))}"


def _vllm(installs: Sequence[EngineInstall]) -> Iterator[str]:
    if engine := _engine(installs, "vllm"):
        yield ""
        yield "# vLLM is here too. A variant of it, under a model's variants:"
        yield f"#   fp16: {{engine: {engine}, weights: org/name, context: {_CONTEXT}}}"


def _engine(installs: Sequence[EngineInstall], kind: EngineKind) -> str | None:
    """How a variant names the engine: by kind alone where Gearshift installed it, else with its path."""
    ours = [install for install in installs if install.kind == kind]
    if not ours:
        return None
    return kind if any(install.managed for install in ours) else f"{kind}@{ours[0].path}"


def _models(files: Sequence[Path], engine: str) -> dict[str, object]:
    """Files that differ in quantization only become variants of one model."""
    models: dict[str, dict[str, object]] = {}
    for file in files:
        name, quant = _named(file)
        variants = models.setdefault(name, {})
        variants[_free(quant, variants)] = Block(engine=engine, weights=str(file), context=_CONTEXT)
    return {name: {"variants": variants} for name, variants in models.items()}


def _named(file: Path) -> tuple[str, str]:
    stem = _PART.sub("", file.stem)
    quant = _QUANT.search(stem)
    name = stem[: quant.start()] if quant else stem
    return _safe(name) or "model", _safe(quant[1]) if quant else "gguf"


def _safe(text: str) -> str:
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-._")


def _free(name: str, taken: dict[str, object]) -> str:
    number = 2
    free = name
    while free in taken:
        free = f"{name}-{number}"
        number += 1
    return free
