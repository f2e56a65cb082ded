"""config.json of the common families: which layers keep what, and where the numbers hide."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gearshift.artifacts.facts import Layer, ModelFacts
from gearshift.artifacts.hf_config import HfConfig
from gearshift.artifacts.hf_facts import hf_facts
from gearshift.artifacts.model import read_model
from gearshift.domain.errors import GearshiftError

SAMPLES = Path(os.environ.get("GEARSHIFT_SAMPLES") or Path(__file__).parents[3] / "shared" / "samples")
BASE = {"num_hidden_layers": 6, "hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 2}


@pytest.fixture
def facts_of(tmp_path: Path) -> Any:
    def read(**keys: object) -> ModelFacts:
        path = tmp_path / "config.json"
        path.write_text(json.dumps({**BASE, **keys}))
        return read_model(path)

    return read


def kinds(facts: ModelFacts) -> str:
    """One letter a layer: full, sliding, latent, recurrent, none."""
    return "".join(layer.kind[0] for layer in facts.layers)


def test_a_dense_model_derives_its_head_size(facts_of: Any) -> None:
    facts = facts_of(torch_dtype="float16", architectures=["LlamaForCausalLM"])
    assert facts.layers == (Layer("full", 2, 64, 64),) * 6
    assert (facts.family, facts.dtype) == ("LlamaForCausalLM", "float16")


def test_the_text_part_wins_over_the_top_level(facts_of: Any) -> None:
    facts = facts_of(dtype="float32", text_config={"num_hidden_layers": 3, "head_dim": 128, "dtype": "bfloat16"})
    assert facts.layers == (Layer("full", 2, 128, 128),) * 3
    assert facts.dtype == "bfloat16"


def test_an_interval_makes_every_kth_layer_full(facts_of: Any) -> None:
    gdn = {
        "linear_num_key_heads": 2,
        "linear_key_head_dim": 16,
        "linear_num_value_heads": 4,
        "linear_value_head_dim": 8,
        "linear_conv_kernel_dim": 4,
    }
    facts = facts_of(full_attention_interval=3, mamba_ssm_dtype="float32", **gdn)
    assert kinds(facts) == "rrfrrf"
    assert facts.recurrent.conv_width == 2 * 2 * 16 + 4 * 8
    assert facts.recurrent.state_elements == 4 * 8 * 16
    assert facts.recurrent.state_dtype == "float32"


def test_named_layer_types_win_over_derived_ones(facts_of: Any) -> None:
    named = ["linear_attention", "full_attention", "sliding_attention"] * 2
    assert kinds(facts_of(layer_types=named, sliding_window=128)) == "rfsrfs"


def test_a_window_that_is_switched_off_slides_nowhere(facts_of: Any) -> None:
    facts = facts_of(sliding_window=128, use_sliding_window=False, layer_types=["sliding_attention"] * 6)
    assert (kinds(facts), facts.window) == ("ffffff", None)


def test_a_window_without_a_pattern_slides_everywhere(facts_of: Any) -> None:
    assert kinds(facts_of(sliding_window=128)) == "ssssss"


def test_a_mamba_pattern_of_letters_is_read(facts_of: Any) -> None:
    facts = facts_of(
        hybrid_override_pattern="M-M*-E", mamba_num_heads=4, mamba_head_dim=16, ssm_state_size=32, n_groups=2
    )
    assert kinds(facts) == "rnrfnn"
    assert facts.recurrent.conv_width == 64 + 2 * 2 * 32
    assert facts.recurrent.state_elements == 64 * 32
    assert facts.recurrent.state_dtype == "float32"


def test_a_layer_with_two_caches_counts_as_two(facts_of: Any) -> None:
    mamba = {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 32}
    assert kinds(facts_of(architectures=["FalconH1ForCausalLM"], **mamba)) == "fr" * 6


@pytest.mark.parametrize(
    ("keys", "letters"),
    [
        ({"architectures": ["Gemma2ForCausalLM"], "sliding_window": 64}, "sfsfsf"),
        ({"architectures": ["Cohere2ForCausalLM"], "sliding_window": 64}, "sssfss"),
        ({"architectures": ["GptOssForCausalLM"], "sliding_window": 64}, "sfsfsf"),
        ({"sliding_window": 64, "sliding_window_pattern": "LLLG"}, "sssfsf"),
        ({"sliding_window": 64, "use_sliding_window": True, "max_window_layers": 4}, "ffffss"),
        ({"attn_layer_period": 3, "attn_layer_offset": 1, "mamba_d_state": 16}, "rfrrfr"),
        ({"attn_layer_indices": [2], "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 16}, "rrfrrr"),
        ({"attn_type_list": [0, 0, 1, 0, 0, 1]}, "rrfrrf"),
        ({"layer_types": ["conv", "full_attention"] * 3, "conv_L_cache": 3}, "rfrfrf"),
        ({"linear_attn_config": {"full_attn_layers": [3, 6], "num_heads": 2, "head_dim": 8}}, "rrfrrf"),
        ({"num_kv_shared_layers": 2}, "ffffnn"),
    ],
)
def test_each_family_s_own_way_to_say_its_layers_is_read(facts_of: Any, keys: dict[str, object], letters: str) -> None:
    facts = facts_of(**keys)
    assert kinds(facts) == letters
    assert facts.hybrid is ("r" in letters)


@pytest.mark.parametrize(
    ("family", "keeps"),
    [("BertModel", False), ("XLMRobertaForSequenceClassification", False), ("ModernBertModel", False),
     ("Qwen3ForSequenceClassification", True), ("LlamaForCausalLM", True)],
)  # fmt: skip
def test_encoders_keep_nothing_between_tokens(facts_of: Any, family: str, *, keeps: bool) -> None:
    assert facts_of(architectures=[family]).keeps_anything is keeps


def test_states_of_other_families_have_the_shape_of_their_class(facts_of: Any) -> None:
    def elements(**keys: object) -> tuple[int, int]:
        shape = facts_of(**keys).recurrent
        return shape.conv_elements(), shape.state_elements

    assert elements(attn_layer_period=3, mamba_d_state=16, mamba_d_conv=4, mamba_expand=2) == (3 * 1024, 1024 * 16)
    assert elements(conv_L_cache=3, layer_types=["conv"] * 6) == (2 * 512, 0)
    assert elements(attn_type_list=[0] * 6) == (0, 8 * 64 * 64)
    kimi = {"num_heads": 2, "head_dim": 8, "short_conv_kernel_size": 4, "full_attn_layers": []}
    assert elements(linear_attn_config=kimi) == (3 * 3 * 16, 2 * 8 * 8)


def test_names_of_older_families_are_known(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"n_embd": 64, "n_head": 4, "n_layer": 2, "n_positions": 1024}))
    facts = read_model(tmp_path)
    assert (facts.layers, facts.context_train) == ((Layer("full", 4, 16, 16),) * 2, 1024)


def test_falcon_has_one_pair_of_heads_and_qwen3_next_a_draft_layer_that_it_does_not_name(facts_of: Any) -> None:
    assert facts_of(multi_query=True).layers[0] == Layer("full", 1, 64, 64)
    assert len(facts_of(architectures=["Qwen3NextForCausalLM"]).mtp_layers) == 1


def test_a_layer_type_nobody_knows_is_named(facts_of: Any) -> None:
    assert facts_of(layer_types=["full_attention", "hyena"] * 3).unknown_kinds == ("hyena",)


def test_latent_attention_keeps_one_compressed_row(facts_of: Any) -> None:
    facts = facts_of(kv_lora_rank=512, qk_rope_head_dim=64, n_routed_experts=16, num_experts_per_tok=2)
    assert facts.layers[0] == Layer("latent", 1, 576, 0)
    assert (facts.experts.count, facts.experts.used) == (16, 2)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"hidden_size": 8, "num_attention_heads": 2}, "num_hidden_layers is missing"),
        ({**BASE, "num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000"),
        ([], "is no JSON object"),
    ],
)
def test_a_config_that_makes_no_decoder_is_refused(tmp_path: Path, document: object, words: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(document))
    with pytest.raises(GearshiftError, match=words):
        read_model(tmp_path)


def test_a_folder_that_holds_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GearshiftError, match=r"neither config.json nor a .gguf file"):
        read_model(tmp_path)


KEYS = st.sampled_from([
    "num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "layer_types",
    "sliding_window", "sliding_window_pattern", "full_attention_interval", "linear_num_value_heads", "kv_lora_rank",
    "linear_num_key_heads", "linear_key_head_dim", "linear_value_head_dim", "mamba_num_heads", "mamba_head_dim",
    "ssm_state_size", "num_experts", "num_experts_per_tok", "mtp_num_hidden_layers", "text_config", "architectures",
    "attn_layer_period", "attn_layer_indices", "attn_type_list", "linear_attn_config", "conv_L_cache", "n_head",
    "num_kv_shared_layers", "max_window_layers", "use_sliding_window", "full_attn_layers", "mamba_d_state",
    "multi_query", "quantization_config", "hybrid_override_pattern", "dtype", "vocab_size",
])  # fmt: skip
VALUES = st.none() | st.booleans() | st.integers(-5, 10**6) | st.floats() | st.text(max_size=3) | st.lists(st.text())


@example({"num_hidden_layers": 1, "num_attention_heads": 1, "hidden_size": 1, "mtp_num_hidden_layers": -1e300})
@given(st.dictionaries(KEYS, VALUES | st.dictionaries(KEYS, VALUES)))
def test_any_config_is_read_or_refused(document: dict[str, Any]) -> None:
    with suppress(GearshiftError):
        facts = hf_facts(HfConfig({**BASE, **document}, "noise"), ())
        assert all(layer.kind for layer in facts.layers)


PUBLIC: Mapping[str, tuple[str, int]] = {  # layers by kind and KV bytes per token in bfloat16, draft head left out
    "Qwen--Qwen3.5-27B": ("16f48r", 65_536),
    "nvidia--Qwen3.6-27B-NVFP4": ("16f48r", 65_536),
    "Qwen--Qwen3.5-35B-A3B": ("10f30r", 20_480),
    "Qwen--Qwen3-8B": ("36f", 147_456),
    "Qwen--Qwen3-0.6B": ("28f", 114_688),
    "meta-llama--Meta-Llama-3.1-8B": ("32f", 131_072),
    "deepseek-ai--DeepSeek-V3": ("61l", 70_272),
    "openai--gpt-oss-20b": ("12f12s", 49_152),
    "google--gemma-3-27b-it.reconstructed": ("10f52s", 507_904),
    "google--gemma-4-26B-A4B": ("5f25s", 225_280),
    "HuggingFaceTB--SmolLM2-135M": ("30f", 23_040),
}


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the public configs are not beside this checkout")
@pytest.mark.parametrize("name", PUBLIC)
def test_public_configs_give_the_known_layers_and_cache(name: str) -> None:
    layers, token_bytes = PUBLIC[name]
    facts = read_model(SAMPLES / "configs" / f"{name}.config.json")
    counts = {letter: kinds(facts).count(letter) for letter in "fslr"}
    assert "".join(f"{count}{letter}" for letter, count in counts.items() if count) == layers
    assert sum(layer.kv_elements for layer in facts.layers) * 2 == token_bytes
