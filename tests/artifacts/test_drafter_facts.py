"""Separate drafters by their files: whose hidden states they read, and tensors that do not fit their own config."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from artifacts.gguf_bytes import Entry, gguf_bytes
from artifacts.test_safetensors import safetensors_bytes
from gearshift.artifacts.facts import ModelFacts, Tokens
from gearshift.artifacts.model import read_model

CONFIG = {
    "architectures": ["DFlashDraftModel"],
    "hidden_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 32,
}
ATTENTION = {"q_proj": [64, 64], "k_proj": [32, 64], "v_proj": [32, 64], "q_norm": [16], "k_norm": [16]}


def drafter(
    folder: Path,
    config: Mapping[str, object] | None = None,
    shapes: Mapping[str, list[int]] | None = None,
    *,
    kind: str = "BF16",
) -> ModelFacts:
    sides = ATTENTION | dict(shapes or {})
    tensors = {f"layers.0.self_attn.{name}.weight": (kind, shape) for name, shape in sides.items()}
    (folder / "config.json").write_text(json.dumps(CONFIG | dict(config or {})))
    (folder / "model.safetensors").write_bytes(safetensors_bytes(tensors))
    return read_model(folder)


@pytest.mark.parametrize(
    ("config", "shapes", "missized"),
    [
        ({}, {}, []),
        (
            {"head_dim": 32},
            {"q_norm": [16]},
            ["k_proj", "v_proj", "q_norm", "k_norm"],
        ),  # as R1's: half of what is built
        ({}, {"k_norm": [8]}, ["k_norm"]),
        ({}, {"k_norm": [32], "q_norm": [64]}, []),  # norms over all heads at once
        ({"num_key_value_heads": 4}, {}, ["k_proj", "v_proj"]),
    ],
)
def test_tensors_of_another_shape_than_the_config_builds_are_named(
    tmp_path: Path, config: dict[str, object], shapes: dict[str, list[int]], missized: list[str]
) -> None:
    found = drafter(tmp_path, config, shapes).misshapen
    assert [text.split(".")[3] for text in found] == missized


def test_r1_17_the_two_sides_that_do_not_meet_are_told(tmp_path: Path) -> None:
    norms = {"q_norm": [128], "k_norm": [256], "k_proj": [512, 64], "v_proj": [512, 64]}
    (text,) = drafter(tmp_path, {"head_dim": 256}, norms).misshapen
    assert text == "layers.0.self_attn.q_norm.weight has 128 rows where the config makes 256"


def test_packed_types_have_sides_of_their_own(tmp_path: Path) -> None:
    assert drafter(tmp_path, shapes={"k_proj": [16, 32]}, kind="U8").misshapen == ()


@pytest.mark.parametrize(
    ("config", "width"),
    [
        ({}, 64),
        ({"target_hidden_size": 5120}, 5120),
        ({"architectures": ["LlamaForCausalLMEagle3"]}, 64),
        ({"architectures": ["Qwen3DSparkModel"]}, 64),
        ({"architectures": ["Qwen3ForCausalLM"]}, None),
    ],
)
def test_a_drafter_says_whose_hidden_states_it_reads(
    tmp_path: Path, config: dict[str, object], width: int | None
) -> None:
    assert drafter(tmp_path, config).reads_hidden == width


def test_a_gguf_drafter_says_so_by_its_architecture_and_brings_its_tokens(tmp_path: Path) -> None:
    keys: dict[str, Entry] = {
        "general.architecture": "eagle3", "eagle3.block_count": 1, "eagle3.embedding_length": 64,
        "eagle3.attention.head_count": 4, "eagle3.target_hidden_size": 5120, "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.add_bos_token": False,
    }  # fmt: skip
    (tmp_path / "d.gguf").write_bytes(gguf_bytes(keys))
    facts = read_model(tmp_path / "d.gguf")
    assert facts.reads_hidden == 5120
    assert facts.tokens == Tokens("gpt2", bos=1, adds_bos=False)
