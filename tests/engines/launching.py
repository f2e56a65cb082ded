"""The variants that launch specs are made of here, and how a spec is read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gearshift.domain.engine import EngineInstall
from gearshift.domain.launch import LaunchSpec, Placement
from gearshift.domain.variant import EngineKind, EngineRef, Speculation, Variant
from gearshift.engines import launch_spec

GPUS = ("GPU-aaaa", "GPU-bbbb")
BASE = {"PATH": "/usr/bin", "HOME": "/home/me", "LANG": "C.UTF-8"}
SERVERS: Mapping[EngineKind, tuple[str, ...]] = {
    "llama.cpp": ("/e/llama-server",),
    "vllm": ("/e/bin/vllm", "serve"),
    "command": (),
}


def installed(kind: EngineKind, version: str | None = None, *command: str) -> EngineInstall:
    return EngineInstall(kind, version, command or SERVERS[kind], Path("/e"), managed=True)


def spec_of(
    variant: Variant, placement: Placement, install: EngineInstall | None = None, base: Mapping[str, str] = BASE
) -> LaunchSpec:
    chosen = install or installed(variant.engine.kind)
    return launch_spec(variant, placement, chosen, port=9000, folder=Path("/run/launch"), base_env=base)


def options(spec: LaunchSpec) -> list[str]:
    """The command and each option with its value, for reading."""
    return " ".join(spec.argv).replace(" --", "\n--").splitlines()


def values(spec: LaunchSpec) -> dict[str, str]:
    """Options with their value; a bare flag has an empty one."""
    words = spec.argv
    return {
        word: "" if index + 1 == len(words) or words[index + 1].startswith("--") else words[index + 1]
        for index, word in enumerate(words)
        if word.startswith("--")
    }


LLAMA = Variant(
    "qwen3.6-27b",
    "q8",
    EngineRef("llama.cpp"),
    weights="/models/Qwen3.6-27B-Q8_0.gguf",
    context=131072,
    speculation=Speculation("mtp", 3),
    kv_dtype="q8_0",
    parallel=1,
    template=Path("/models/qwen.jinja"),
    args={"split-mode": "tensor", "tensor-split": "50,50", "flash-attn": True, "cache-reuse": 256, "temp": 0.6},
)
VLLM = Variant(
    "qwen3.6-27b",
    "int8",
    EngineRef("vllm"),
    weights="/models/qwen3.6-27b-int8",
    context=32768,
    speculation=Speculation("mtp", 2),
    kv_dtype="fp8_e5m2",
    kv_bytes="auto",
    parallel=2,
    args={
        "quantization": "auto_round",
        "dtype": "float16",
        "disable-custom-all-reduce": True,
        "max-num-batched-tokens": 8192,
        "trust-remote-code": None,
        "enable-prefix-caching": False,
        "default-chat-template-kwargs": '{"enable_thinking":false}',
    },
    env={"NCCL_P2P_DISABLE": "1"},
)
