"""The demo's configuration: several ways to run SmolLM2-135M in one swap group."""

from __future__ import annotations

from pathlib import Path

MODEL = "smollm2-135m"

_HEAD = """\
# Written by `gearshift demo`. Everything here is ordinary configuration: copy what you like.
listen: 127.0.0.1:{port}
defaults:
  min_resident: 0s   # the demo swaps on purpose; keep the default of 10s for real use
  idle: {{unload_after: 10m}}
models:
  {model}:
    aliases: [smollm]
    sampling: {{temperature: 0.2}}
    route: auto
    variants:
      plain:
        engine: llama.cpp
        weights: {gguf}
        context: 2048
        parallel: 1
      ngram:
        extends: plain
        speculation: {{method: ngram}}   # drafts from the prompt itself: pays where text repeats
      q8kv:
        extends: plain
        kv_dtype: q8_0                 # half the KV bytes
      long:
        extends: plain
        context: 8192
        parallel: 2
"""

_VLLM = """\
      vllm:
        engine: vllm
        weights: {hf}
        context: 2048
        parallel: 4
        kv_bytes: 1GiB
        args: {{enforce-eager: true, dtype: bfloat16}}
"""

_GROUP = """\
groups:
  one-at-a-time: {{swap: true, members: [{members}]}}
"""


def demo_variants(*, with_vllm: bool) -> tuple[str, ...]:
    """The variant names of the demo, in tour order."""
    names = ("plain", "ngram", "q8kv", "long")
    return (*names, "vllm") if with_vllm else names


def demo_config(gguf: Path, hf: Path | None, port: int) -> str:
    """The YAML text; ``hf`` is the same model's weights in Hugging Face format where vLLM is installed."""
    members = ", ".join(f"{MODEL}:{name}" for name in demo_variants(with_vllm=hf is not None))
    parts = [_HEAD.format(port=port, model=MODEL, gguf=gguf)]
    if hf is not None:
        parts.append(_VLLM.format(hf=hf))
    parts.append(_GROUP.format(members=members))
    return "".join(parts)
