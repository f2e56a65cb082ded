"""Model files as small as headers can be: what `plan` reads of them is as large as the real ones."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path

import gguf

HYBRID: Mapping[str, object] = {  # the text part of the 27B hybrids
    "architectures": ["Qwen3_5ForConditionalGeneration"],
    "vision_config": {},
    "text_config": {
        "num_hidden_layers": 64,
        "full_attention_interval": 4,
        "hidden_size": 5120,
        "intermediate_size": 17_408,
        "num_attention_heads": 24,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 48,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
        "mamba_ssm_dtype": "float32",
        "mtp_num_hidden_layers": 1,
        "vocab_size": 248_320,
        "max_position_embeddings": 262_144,
        "dtype": "bfloat16",
    },
}
DENSE: Mapping[str, object] = {  # a model of 135M parameters
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 30,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "vocab_size": 49_152,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}
HYBRID_TENSORS = {  # name to type and bytes, in the proportions of a 4-bit checkpoint with a whole head
    "model.embed_tokens.weight": ("BF16", 2_542_796_800),
    "lm_head.weight": ("BF16", 2_542_796_800),
    "model.layers.0.mlp.up_proj.weight": ("U8", 13_600_000_000),
    "mtp.layers.0.mlp.up_proj.weight": ("BF16", 848_000_000),
}
_ELEMENT = {"BF16": 2, "U8": 1}


def write_config(folder: Path, config: Mapping[str, object]) -> Path:
    """A lone config.json."""
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return path


def write_model(folder: Path, config: Mapping[str, object], tensors: Mapping[str, tuple[str, int]]) -> Path:
    """A Hugging Face folder whose weights are a header and a hole."""
    folder.mkdir()
    write_config(folder, config)
    header: dict[str, object] = {}
    end = 0
    for name, (dtype, size) in tensors.items():
        header[name] = {"dtype": dtype, "shape": [size // _ELEMENT[dtype]], "data_offsets": [end, end + size]}
        end += size
    raw = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(raw)) + raw)
        file.truncate(8 + len(raw) + end)
    return folder


def write_hybrid(folder: Path) -> Path:
    """The 27B hybrid in 4 bits: 18.7 GB and a draft head of 0.8 GB."""
    return write_model(folder / "hybrid", HYBRID, HYBRID_TENSORS)


def write_hybrid_gguf(path: Path) -> Path:
    """The metadata of the 27B hybrid as llama.cpp names it, without a tensor."""
    writer = gguf.GGUFWriter(path, "qwen35")
    keys = {
        "block_count": 65,
        "nextn_predict_layers": 1,
        "context_length": 262_144,
        "embedding_length": 5120,
        "feed_forward_length": 17_408,
        "attention.head_count": 24,
        "attention.head_count_kv": 4,
        "attention.key_length": 256,
        "attention.value_length": 256,
        "full_attention_interval": 4,
        "ssm.conv_kernel": 4,
        "ssm.state_size": 128,
        "ssm.group_count": 16,
        "ssm.time_step_rank": 48,
        "ssm.inner_size": 6144,
    }
    for key, value in keys.items():
        writer.add_uint32(f"qwen35.{key}", value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path
