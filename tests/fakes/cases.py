"""Made-up patients for the doctor: variants, models and boxes with just what a check asks about."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from gearshift.advice.doctor import Box, Case, Setup
from gearshift.artifacts.facts import Layer, ModelFacts, ModelFile, MtpFacts, Recurrent, TensorGroup
from gearshift.domain.device import Device
from gearshift.domain.engine import EngineInstall
from gearshift.domain.settings import Model, Settings
from gearshift.domain.units import GIB
from gearshift.domain.variant import EngineKind, EngineRef, Speculation, Variant
from gearshift.engines import packaged_flags
from gearshift.hardware import HostMemory

MTP = Speculation("mtp", 3)
OFF = Speculation("off")


def card(index: int, name: str = "NVIDIA GeForce RTX 3090") -> Device:
    return Device(f"GPU-{index}", index, name, 24 * GIB)


def box(cards: int = 0, **facts: Any) -> Box:
    """A box with this many equal cards, or the CPU alone; 64 GiB of RAM of which half is free."""
    gpus = tuple(card(index) for index in range(cards))
    memory = HostMemory(64 * GIB, 32 * GIB, 8 * GIB, 8 * GIB)
    devices = gpus or (Device("cpu", None, "CPU", 64 * GIB),)
    return replace(Box(devices=devices, memory=memory), **facts)


def blind_pair(**facts: Any) -> Box:
    """Two cards that cannot read each other's memory."""
    return box(2, peers={(0, 1): False}, **facts)


def dense(**facts: Any) -> ModelFacts:
    """A small dense model with weights at hand."""
    model = ModelFacts(
        format="safetensors",
        family="Qwen3ForCausalLM",
        layers=(Layer("full", 2, 64, 64),) * 2,
        hidden=64,
        heads=24,
        vocab=1000,
        context_train=32768,
        dtype="bfloat16",
        tensors=(TensorGroup("body", "BF16", 4, 4096, 2048),),
        files=(ModelFile(Path("/models/m/model.safetensors"), 4 * GIB),),
    )
    return replace(model, **facts)


def hybrid(**facts: Any) -> ModelFacts:
    """A Gated DeltaNet hybrid with a whole BF16 draft head."""
    known: dict[str, Any] = {
        "family": "Qwen3_5ForConditionalGeneration",
        "layers": (Layer("recurrent"), Layer("full", 2, 64, 64)),
        "recurrent": Recurrent(4, 64, 1024),
        "context_train": 262144,
        "mtp": MtpFacts(1, complete=True, types=("BF16",)),
    }
    return dense(**(known | facts))


def vllm(model: ModelFacts | None = None, *, version: str = "0.32.0", on: Box | None = None, **settings: Any) -> Case:
    """A vLLM variant on one card."""
    return _case("vllm", version, model or dense(), on or box(1), settings)


def llamacpp(
    model: ModelFacts | None = None, *, version: str = "11434", on: Box | None = None, **settings: Any
) -> Case:
    """A llama.cpp variant on one card, with a window of its own."""
    known: dict[str, Any] = {"weights": "/models/m.gguf", "context": 8192} | settings
    return _case("llama.cpp", version, model or dense(format="gguf", family="llama"), on or box(1), known)


def setup(on: Box | None = None, *, variants: tuple[Variant, ...] = (), **settings: Any) -> Setup:
    """A box and settings with these variants of one model."""
    models = {"m": Model("m", (), "auto", variants)} if variants else {}
    return Setup(on or box(1), Settings(models=models, **settings))


def _case(kind: EngineKind, version: str, model: ModelFacts, on: Box, settings: dict[str, Any]) -> Case:
    flags = packaged_flags(kind, version)
    install = EngineInstall(kind, version, (kind,), Path("/opt/engine"), managed=True, flags=flags, digest="aa")
    variant = Variant("m", "v", EngineRef(kind), **({"weights": "/models/m"} | settings))
    return Case(variant, flags, on, install, weights=Path("/models/m"), model=model)
