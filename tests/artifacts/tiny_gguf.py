"""Models of a few hundred kilobytes that a real llama-server loads, written with the reference `gguf` package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import gguf
import numpy as np

HIDDEN, FFN, HEADS, HEAD_DIM, CONTEXT = 64, 128, 4, 32, 4096
VOCAB = 258  # every byte, one merge, one end mark
Value = int | float | str | list[int] | list[bool] | list[str]


@dataclass(frozen=True)
class TinyModel:
    """Metadata below ``{arch}.`` and tensors as name to shape (rows first, as numpy counts)."""

    arch: str
    keys: Mapping[str, Value]
    tensors: Mapping[str, tuple[int, ...]]
    type: str = "F32"
    extra: Mapping[str, Value] = field(default_factory=dict)

    def write(self, path: Path) -> Path:
        writer = gguf.GGUFWriter(path, self.arch)
        for key, value in {
            **{f"{self.arch}.{k}": v for k, v in self.keys.items()},
            **vocabulary(),
            **self.extra,
        }.items():
            _add(writer, key, value)
        for name, shape in self.tensors.items():
            writer.add_tensor(name, np.zeros(shape, dtype=np.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path


def vocabulary() -> dict[str, Value]:
    """A byte-level vocabulary of 258 tokens, the least that llama.cpp's tokenizer accepts."""
    tokens = [*_byte_characters(), "ab", "<|end|>"]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1] * (len(tokens) - 1) + [3],
        "tokenizer.ggml.merges": ["a b"],
        "tokenizer.ggml.bos_token_id": len(tokens) - 1,
        "tokenizer.ggml.eos_token_id": len(tokens) - 1,
    }


def dense() -> TinyModel:
    """Llama: two layers of full attention, two KV heads."""
    layers = 2
    return TinyModel("llama", _base(layers, kv_heads=2), {**_outer(), **_each(layers, _attention(2), _ffn())})


def wider(model: TinyModel, more: int) -> TinyModel:
    """The model with so many tokens more."""
    words = vocabulary()
    tokens, kinds = words["tokenizer.ggml.tokens"], words["tokenizer.ggml.token_type"]
    assert isinstance(tokens, list)
    assert isinstance(kinds, list)
    extra: dict[str, Value] = {
        "tokenizer.ggml.tokens": [*map(str, tokens), *(f"<|{number}|>" for number in range(more))],
        "tokenizer.ggml.token_type": [*map(int, kinds), *[3] * more],
    }
    ends = dict.fromkeys(("token_embd.weight", "output.weight"), (VOCAB + more, HIDDEN))
    return replace(model, extra=extra, tensors={**model.tensors, **ends})


def mixture() -> TinyModel:
    """Qwen3-MoE: two layers, four experts of which a token uses two."""
    layers, experts, width = 2, 4, 32
    keys = _base(layers, kv_heads=2) | {
        "expert_count": experts,
        "expert_used_count": 2,
        "expert_feed_forward_length": width,
    }
    routed = {
        "ffn_norm.weight": (HIDDEN,),
        "ffn_gate_inp.weight": (experts, HIDDEN),
        "ffn_gate_exps.weight": (experts, width, HIDDEN),
        "ffn_up_exps.weight": (experts, width, HIDDEN),
        "ffn_down_exps.weight": (experts, HIDDEN, width),
    }
    return TinyModel("qwen3moe", keys, {**_outer(), **_each(layers, _attention(2) | _qk_norms(), routed)})


def sliding() -> TinyModel:
    """Gemma 3: seven layers, every sixth full, a window of 256; the head is tied to the embedding."""
    layers = 7
    keys = _base(layers, kv_heads=1) | {"attention.sliding_window": 256}
    block = _attention(1) | _qk_norms() | {"post_attention_norm.weight": (HIDDEN,), "post_ffw_norm.weight": (HIDDEN,)}
    outer = {name: shape for name, shape in _outer().items() if name != "output.weight"}
    return TinyModel("gemma3", keys, {**outer, **_each(layers, block, _ffn())})


def hybrid(*, draft_head: bool = True) -> TinyModel:
    """Qwen3.5: four layers, the fourth attention, the others Gated DeltaNet; then one multi-token-prediction block."""
    layers, state, groups, value_heads, kernel = 4, 32, 2, 4, 4
    inner = state * value_heads
    keys = _base(layers + draft_head, kv_heads=2) | {
        "ssm.conv_kernel": kernel,
        "ssm.state_size": state,
        "ssm.group_count": groups,
        "ssm.time_step_rank": value_heads,
        "ssm.inner_size": inner,
        "full_attention_interval": 4,
        "rope.dimension_sections": [4, 2, 2, 0],
    }
    attention = _attention(2, gated=True) | _qk_norms() | {"post_attention_norm.weight": (HIDDEN,)}
    delta = {
        "attn_norm.weight": (HIDDEN,),
        "post_attention_norm.weight": (HIDDEN,),
        "attn_qkv.weight": (2 * state * groups + inner, HIDDEN),
        "attn_gate.weight": (inner, HIDDEN),
        "ssm_conv1d.weight": (2 * state * groups + inner, kernel),
        "ssm_dt.bias": (value_heads,),
        "ssm_a": (value_heads,),
        "ssm_beta.weight": (value_heads, HIDDEN),
        "ssm_alpha.weight": (value_heads, HIDDEN),
        "ssm_norm.weight": (state,),
        "ssm_out.weight": (HIDDEN, inner),
    }
    ffn = {name: shape for name, shape in _ffn().items() if name != "ffn_norm.weight"}
    tensors = {**_outer(), **_each(layers - 1, delta, ffn), **_block(layers - 1, attention | ffn)}
    if draft_head:
        keys["nextn_predict_layers"] = 1
        tensors |= _block(layers, attention | ffn | _draft_projection())
    return TinyModel("qwen35", keys, tensors)


def _draft_projection() -> dict[str, tuple[int, ...]]:
    return {
        "nextn.eh_proj.weight": (HIDDEN, 2 * HIDDEN),
        "nextn.enorm.weight": (HIDDEN,),
        "nextn.hnorm.weight": (HIDDEN,),
        "nextn.shared_head_norm.weight": (HIDDEN,),
    }


def _base(layers: int, *, kv_heads: int) -> dict[str, Value]:
    return {
        "block_count": layers,
        "context_length": CONTEXT,
        "embedding_length": HIDDEN,
        "feed_forward_length": FFN,
        "attention.head_count": HEADS,
        "attention.head_count_kv": kv_heads,
        "attention.key_length": HEAD_DIM,
        "attention.value_length": HEAD_DIM,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "rope.freq_base": 10000.0,
        "rope.dimension_count": HEAD_DIM,
    }


def _outer() -> dict[str, tuple[int, ...]]:
    return {"token_embd.weight": (VOCAB, HIDDEN), "output_norm.weight": (HIDDEN,), "output.weight": (VOCAB, HIDDEN)}


def _attention(kv_heads: int, *, gated: bool = False) -> dict[str, tuple[int, ...]]:
    return {
        "attn_norm.weight": (HIDDEN,),
        "attn_q.weight": (HEADS * HEAD_DIM * (2 if gated else 1), HIDDEN),
        "attn_k.weight": (kv_heads * HEAD_DIM, HIDDEN),
        "attn_v.weight": (kv_heads * HEAD_DIM, HIDDEN),
        "attn_output.weight": (HIDDEN, HEADS * HEAD_DIM),
    }


def _qk_norms() -> dict[str, tuple[int, ...]]:
    return {"attn_q_norm.weight": (HEAD_DIM,), "attn_k_norm.weight": (HEAD_DIM,)}


def _ffn() -> dict[str, tuple[int, ...]]:
    return {
        "ffn_norm.weight": (HIDDEN,),
        "ffn_gate.weight": (FFN, HIDDEN),
        "ffn_up.weight": (FFN, HIDDEN),
        "ffn_down.weight": (HIDDEN, FFN),
    }


def _each(layers: int, *parts: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    return {name: shape for index in range(layers) for part in parts for name, shape in _block(index, part).items()}


def _block(index: int, part: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    return {f"blk.{index}.{name}": shape for name, shape in part.items()}


def _byte_characters() -> Iterator[str]:
    """GPT-2's printable stand-in for each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return (chr(byte if byte in printable else next(others)) for byte in range(256))


def _add(writer: gguf.GGUFWriter, key: str, value: Value) -> None:
    match value:
        case list():
            writer.add_array(key, value)
        case str():
            writer.add_string(key, value)
        case float():
            writer.add_float32(key, value)
        case int():
            writer.add_uint32(key, value)
