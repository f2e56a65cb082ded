"""Facts of well-known models, written out so that no file is needed."""

from __future__ import annotations

from dataclasses import replace

from gearshift.artifacts.facts import Experts, Layer, ModelFacts, MtpFacts, Recurrent, TensorGroup

MIB = 1024**2
GIB = 1024**3

_GDN_27B = Recurrent(conv_kernel=4, conv_width=2 * 16 * 128 + 48 * 128, state_elements=48 * 128 * 128)


def qwen27b() -> ModelFacts:
    """Qwen3.5-27B, the text config of 3.6 and 3.8 too: 48 GDN and 16 attention layers, one MTP layer."""
    attention = Layer("full", 4, 256, 256)
    return ModelFacts(
        format="config",
        family="Qwen3_5ForConditionalGeneration",
        layers=(Layer("recurrent"), Layer("recurrent"), Layer("recurrent"), attention) * 16,
        mtp_layers=(attention,),
        hidden=5120,
        heads=24,
        vocab=248_320,
        context_train=262_144,
        dtype="bfloat16",
        ffn=17_408,
        recurrent=replace(_GDN_27B, state_dtype="float32"),
        mtp=MtpFacts(1, None),
        vision=True,
    )


def qwen27b_gguf() -> ModelFacts:
    """The same model as llama.cpp names it, without weights."""
    return replace(qwen27b(), format="gguf", family="qwen35", dtype="float16", recurrent=_GDN_27B, vision=False)


def qwen35b() -> ModelFacts:
    """Qwen3.5-35B-A3B: 30 GDN and 10 attention layers, 256 experts."""
    attention = Layer("full", 2, 256, 256)
    return replace(
        qwen27b(),
        layers=(Layer("recurrent"), Layer("recurrent"), Layer("recurrent"), attention) * 10,
        mtp_layers=(attention,),
        hidden=2048,
        heads=16,
        ffn=None,
        recurrent=Recurrent(4, 2 * 16 * 128 + 32 * 128, 32 * 128 * 128, "float32"),
        experts=Experts(256, 8, 1, 512),
    )


def qwen9b_gguf() -> ModelFacts:
    """Qwen3.5-9B: 24 GDN and 8 attention layers, no draft head in the file."""
    return replace(
        qwen27b_gguf(),
        layers=(Layer("recurrent"), Layer("recurrent"), Layer("recurrent"), Layer("full", 4, 256, 256)) * 8,
        mtp_layers=(),
        mtp=None,
        hidden=4096,
        heads=16,
        ffn=12_288,
        recurrent=Recurrent(4, 2 * 16 * 128 + 32 * 128, 32 * 128 * 128),
    )


def dense(
    layers: int, *, kv_heads: int, head_dim: int, hidden: int = 4096, heads: int = 32, context: int = 40_960
) -> ModelFacts:
    """A model of full attention only."""
    return ModelFacts(
        format="config",
        family="LlamaForCausalLM",
        layers=(Layer("full", kv_heads, head_dim, head_dim),) * layers,
        hidden=hidden,
        heads=heads,
        vocab=151_936,
        context_train=context,
        dtype="bfloat16",
        ffn=3 * hidden,
    )


def qwen235b() -> ModelFacts:
    return dense(94, kv_heads=4, head_dim=128, heads=64)


def qwen06b() -> ModelFacts:
    return dense(28, kv_heads=8, head_dim=128, hidden=1024, heads=16)


def smollm2() -> ModelFacts:
    """SmolLM2-135M with the tensor bytes of its Q4_1 GGUF."""
    facts = dense(30, kv_heads=3, head_dim=64, hidden=576, heads=9, context=8192)
    return replace(
        facts,
        vocab=49_152,
        ffn=1536,
        tied_head=True,
        layer_bytes=(2_216_448,) * 30,
        tensors=(
            TensorGroup("embedding", "Q8_0", 1, 30_081_024, 28_311_552),
            TensorGroup("body", "F32", 61, 140_544, 35_136),
            TensorGroup("body", "Q4_1", 210, 66_355_200, 106_168_320),
        ),
    )


def gpt_oss20b() -> ModelFacts:
    """12 sliding and 12 full layers of one shape, window 128."""
    pair = (Layer("sliding", 8, 64, 64), Layer("full", 8, 64, 64))
    return replace(
        dense(24, kv_heads=8, head_dim=64, hidden=2880, heads=64, context=131_072),
        family="GptOssForCausalLM",
        layers=pair * 12,
        window=128,
        experts=Experts(32, 4, 0, 2880),
    )


def gemma4_12b_gguf() -> ModelFacts:
    """Eight global layers of one 512-wide head, 40 sliding ones of eight 256-wide heads, window 1,024."""
    return ModelFacts(
        format="gguf",
        family="gemma4",
        layers=(*(Layer("sliding", 8, 256, 256),) * 5, Layer("full", 1, 512, 512)) * 8,
        hidden=3840,
        heads=16,
        vocab=262_144,
        context_train=262_144,
        dtype="float16",
        ffn=15_360,
        window=1024,
    )
