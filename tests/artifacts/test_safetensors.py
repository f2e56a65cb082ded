"""Safetensors headers, sharded folders, and drafts heads that an index promises and no file holds."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.artifacts.facts import ModelFacts
from gearshift.artifacts.model import read_model
from gearshift.artifacts.safetensors import read_index, read_safetensors
from gearshift.artifacts.source import MemorySource
from gearshift.domain.errors import GearshiftError

CONFIG = {
    "architectures": ["Qwen3_5ForConditionalGeneration"],
    "vision_config": {"depth": 2},
    "text_config": {
        "dtype": "bfloat16",
        "hidden_size": 8,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "vocab_size": 16,
        "mtp_num_hidden_layers": 1,
        "max_position_embeddings": 64,
    },
    "quantization_config": {"quant_method": "modelopt"},
}
TENSORS = {
    "model.language_model.embed_tokens.weight": ("BF16", [16, 8]),
    "model.language_model.layers.0.mlp.up_proj.weight": ("U8", [8, 4]),
    "model.language_model.layers.1.mlp.up_proj.weight": ("U8", [8, 4]),
    "model.visual.patch_embed.weight": ("BF16", [8, 8]),
    "lm_head.weight": ("BF16", [16, 8]),
    "mtp.fc.weight": ("BF16", [8, 16]),
    "mtp.layers.0.self_attn.q_proj.weight": ("BF16", [8, 8]),
}
SIZES = {"BF16": 2, "U8": 1, "F8_E4M3": 1, "F32": 4}


def safetensors_bytes(tensors: Mapping[str, tuple[str, list[int]]]) -> bytes:
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (kind, shape) in tensors.items():
        size = SIZES[kind]
        for side in shape:
            size *= side
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    raw = json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + bytes(end)


def model_folder(folder: Path, tensors: Mapping[str, tuple[str, list[int]]]) -> ModelFacts:
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "model.safetensors").write_bytes(safetensors_bytes(tensors))
    return read_model(folder)


def test_bytes_are_sorted_by_role_and_type(tmp_path: Path) -> None:
    facts = model_folder(tmp_path, TENSORS)
    assert {(group.role, group.type): (group.count, group.bytes) for group in facts.tensors} == {
        ("embedding", "BF16"): (1, 256),
        ("body", "U8"): (2, 64),
        ("vision", "BF16"): (1, 128),
        ("head", "BF16"): (1, 256),
        ("mtp", "BF16"): (2, 384),
    }
    assert facts.layer_bytes == (32, 32)
    assert facts.quantization == "modelopt"
    assert facts.vision


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("model.embed_tokens_per_layer.weight", "embedding"),
        ("transformer.wte.weight", "embedding"),
        ("backbone.embeddings.weight", "embedding"),
        ("output.weight", "head"),
        ("model.layers.2.embed_tokens.weight", "mtp"),  # behind the last decoder layer
        ("model.layers.1.self_attn.output.weight", "body"),
        ("vision_tower.encoder.layers.9.mlp.fc1.weight", "vision"),
    ],
)
def test_a_tensors_name_tells_its_role(tmp_path: Path, name: str, role: str) -> None:
    (group,) = model_folder(tmp_path, {name: ("BF16", [8, 8])}).tensors
    assert group.role == role


def test_an_embedding_without_a_head_is_the_head(tmp_path: Path) -> None:
    tensors = {"model.embed_tokens.weight": ("BF16", [4, 2]), "model.layers.0.mlp.up_proj.weight": ("BF16", [2, 2])}
    assert model_folder(tmp_path, tensors).tied_head
    assert not model_folder(tmp_path, {**tensors, "lm_head.weight": ("BF16", [4, 2])}).tied_head


def test_a_draft_head_tells_its_precision(tmp_path: Path) -> None:
    mtp = model_folder(tmp_path, TENSORS).mtp
    assert mtp is not None
    assert (mtp.complete, mtp.types) == (True, ("BF16",))


def test_a_dropped_draft_head_is_incomplete(tmp_path: Path) -> None:
    mtp = model_folder(tmp_path, {name: shape for name, shape in TENSORS.items() if not name.startswith("mtp.")}).mtp
    assert mtp is not None
    assert (mtp.complete, mtp.missing) == (False, ("mtp.fc.weight",))


def test_an_index_that_maps_to_a_deleted_file_names_file_and_tensors(tmp_path: Path) -> None:
    held = {name: shape for name, shape in TENSORS.items() if not name.startswith("mtp.")}
    drafts = [name for name in TENSORS if name.startswith("mtp.")]
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "model.safetensors").write_bytes(safetensors_bytes(held))
    weight_map = dict.fromkeys(held, "model.safetensors") | dict.fromkeys(drafts, "model-mtp-grafted.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    facts = read_model(tmp_path)
    assert facts.missing_files == ("model-mtp-grafted.safetensors",)
    assert facts.mtp is not None
    assert (facts.mtp.complete, facts.mtp.missing) == (False, tuple(sorted(drafts)))


def test_r1_16_all_fifteen_tensors_of_a_grafted_draft_head_are_missed(tmp_path: Path) -> None:
    top = ("fc", "norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden")
    attention = (f"self_attn.{part}" for part in ("q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm"))
    feed_forward = (f"mlp.{part}_proj" for part in ("gate", "up", "down"))
    layer = ("input_layernorm", "post_attention_layernorm", *feed_forward, *attention)
    drafts = [*(f"mtp.{name}.weight" for name in top), *(f"mtp.layers.0.{name}.weight" for name in layer)]
    held = {name: shape for name, shape in TENSORS.items() if not name.startswith("mtp.")}
    model_folder(tmp_path, held)
    weight_map = dict.fromkeys(held, "model.safetensors") | dict.fromkeys(drafts, "model-mtp-grafted.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    mtp = read_model(tmp_path).mtp
    assert mtp is not None
    assert (mtp.complete, len(mtp.missing)) == (False, 15)


def test_a_folder_without_weights_still_says_its_layers(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    facts = read_model(tmp_path)
    assert (facts.format, len(facts.layers), len(facts.mtp_layers)) == ("config", 2, 1)
    assert not facts.weights_known


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x01\x02", "the file ends after 2 of the header's 8 length bytes"),
        (struct.pack("<Q", 1 << 50) + b"{}", "a header of 1125899906842624 bytes does not fit a file of 10"),
        (struct.pack("<Q", 2) + b"[]", "the header is no JSON object"),
        (struct.pack("<Q", 4) + b"{bad", "the header is no JSON"),
        (struct.pack("<Q", 9) + b'{"t":{}}\n', "tensor 't' has no usable dtype, shape and data_offsets"),
        (safetensors_bytes(TENSORS)[:-5], "the tensors end at byte"),
    ],
)
def test_a_damaged_file_is_refused_with_the_reason(data: bytes, words: str) -> None:
    with pytest.raises(GearshiftError) as caught:
        read_safetensors(MemorySource("bad.safetensors", data))
    assert caught.value.message.startswith("bad.safetensors: ")
    assert words in caught.value.message


@given(st.binary(max_size=300), st.integers(0, 300))
def test_random_bytes_never_fail_with_anything_but_our_error(data: bytes, length: int) -> None:
    for candidate in (data, struct.pack("<Q", length) + data):
        with suppress(GearshiftError):
            assert read_safetensors(MemorySource("noise", candidate)) is not None


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=4), lambda c: st.lists(c) | st.dictionaries(st.text(max_size=4), c)
    )
)
def test_any_json_header_is_read_or_refused(document: object) -> None:
    raw = json.dumps(document).encode()
    with suppress(GearshiftError):
        assert read_safetensors(MemorySource("noise", struct.pack("<Q", len(raw)) + raw)) is not None


@pytest.mark.parametrize("text", ["", "[]", '{"weight_map": 5}', '{"weight_map": {"a": 1}}'])
def test_an_index_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(text)
    with pytest.raises(GearshiftError, match=r"index\.json"):
        read_index(path)


def test_bin_files_that_an_index_names_have_to_be_there_too(tmp_path: Path) -> None:
    config = {"architectures": ["LlamaForCausalLM"], "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    (tmp_path / "config.json").write_text(json.dumps(config))
    weight_map = {"a": "pytorch_model-00001-of-00002.bin", "b": "pytorch_model-00002-of-00002.bin"}
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": weight_map}))
    (tmp_path / "pytorch_model-00001-of-00002.bin").write_bytes(b"")
    assert read_model(tmp_path).missing_files == ("pytorch_model-00002-of-00002.bin",)
    (tmp_path / "pytorch_model-00002-of-00002.bin").write_bytes(b"")
    assert read_model(tmp_path).missing_files == ()
