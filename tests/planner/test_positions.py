"""How long a request may be by a model's positions: what vLLM refuses, where llama-server ends, what overrides do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gearshift.artifacts.facts import ModelFacts, Rope
from gearshift.artifacts.hf_config import HfConfig, context_of, rope_of
from gearshift.domain.device import CPU_DEVICE, Device
from gearshift.domain.variant import EngineKind, EngineRef, Variant
from gearshift.planner.answers import longest_context, model_longest
from gearshift.planner.ledger import Plan, SlotKv
from gearshift.planner.planning import plan_variant
from gearshift.planner.request import PlannedDevice, PlanRequest
from gearshift.planner.variant_request import request_for
from planner.models import GIB, smollm2

TRAINED = 8192
BOX = Device(CPU_DEVICE, None, "host memory", 64 * GIB)
YARN = Rope("yarn", 4.0, TRAINED)


def model(rope: Rope | None = None, *, stated: int = TRAINED, family: str = "LlamaForCausalLM") -> ModelFacts:
    return replace(smollm2(), context_train=stated, rope=rope, family=family)


def variant(kind: EngineKind, context: int | None, args: dict[str, Any] | None = None, **env: str) -> Variant:
    return Variant("m", "a", EngineRef(kind), "weights", context=context, args=args or {}, env=env, parallel=1)


def planned(facts: ModelFacts, wanted: Variant, version: str | None = None) -> Plan:
    return plan_variant(wanted, facts, (BOX,), engine_version=version)


def reach(kind: EngineKind, facts: ModelFacts, version: str | None = None, **args: Any) -> int | None:
    named = {name.replace("_", "-"): value for name, value in args.items()}
    return model_longest(request_for(variant(kind, None, named), (BOX,), engine_version=version), facts)


@pytest.mark.parametrize(
    ("rope", "stated", "version", "longest"),
    [
        (None, TRAINED, "0.32.0", TRAINED),
        (Rope("linear", 2.0), TRAINED, "0.32.0", 2 * TRAINED),
        (Rope("dynamic", 2.0), TRAINED, "0.24.0", 2 * TRAINED),
        (Rope("llama3", 8.0, 8192), 131_072, "0.32.0", 131_072),
        (Rope("longrope", 32.0, 4096), 131_072, "0.32.0", 131_072),
        (Rope("yarn", 4.0, 32_768), 40_960, "0.31.0", 131_072),
        (Rope("yarn", 4.0, 32_768), 40_960, "0.32.0", 40_960),  # the config has to state what it reaches
        (Rope("yarn", 4.0, 32_768), 131_072, "0.32.0", 131_072),
        (Rope("deepseek_yarn", 40.0, 4096), 131_072, "0.31.0", 5_242_880),  # the published fault of older versions
        (Rope("deepseek_yarn", 40.0, 4096), 131_072, "0.32.0", 131_072),
        (Rope("dynamic"), TRAINED, "0.32.0", TRAINED),
    ],
)
def test_vllm_derives_its_limit_from_the_config(rope: Rope | None, stated: int, version: str, longest: int) -> None:
    assert reach("vllm", model(rope, stated=stated), version) == longest


def test_gemma_3_states_what_it_reaches() -> None:
    gemma = model(Rope("linear", 8.0), stated=131_072, family="Gemma3ForConditionalGeneration")
    assert reach("vllm", gemma) == 131_072


def test_vllm_refuses_a_context_beyond_its_limit_and_lets_it_through_when_told() -> None:
    refused = planned(model(), variant("vllm", 2 * TRAINED))
    assert refused.fits is False
    assert any("16,384 is more than the 8,192 tokens that the model's config allows" in why for why in refused.refusals)
    told = planned(model(), variant("vllm", 2 * TRAINED, VLLM_ALLOW_LONG_MAX_MODEL_LEN="1"))
    assert told.refusals == ()
    assert any("positions beyond may be nan" in note for note in told.notes)
    assert planned(model(), variant("vllm", TRAINED)).refusals == ()


def test_overrides_of_the_config_count_as_the_config() -> None:
    scaled = '{"rope_parameters": {"rope_type": "linear", "factor": 2.0}}'
    assert reach("vllm", model(), hf_overrides=scaled) == 2 * TRAINED
    stated = '{"text_config": {"max_position_embeddings": 32768, "rope_scaling": {"type": "yarn", "factor": 4.0}}}'
    assert reach("vllm", model(), hf_overrides=stated) == 32_768
    assert reach("vllm", model(), hf_overrides="{broken") == TRAINED
    assert reach("vllm", model(), hf_overrides="[]") == TRAINED


def test_without_a_context_vllm_takes_the_longest_and_of_long_rope_what_was_trained_unscaled() -> None:
    assert planned(model(Rope("linear", 2.0)), variant("vllm", None)).context == 2 * TRAINED
    assert planned(model(Rope("longrope", 32.0, 4096), stated=131_072), variant("vllm", None)).context == 4096


@pytest.mark.parametrize(
    ("args", "longest"),
    [
        ({}, TRAINED),
        ({"rope_scaling": "yarn", "rope_scale": 2}, 2 * TRAINED),
        ({"rope_scaling": "yarn", "rope_scale": 4, "yarn_orig_ctx": 4096}, 16_384),
        ({"rope_scaling": "yarn", "rope_freq_scale": 0.25, "yarn_orig_ctx": 4096}, 16_384),
        ({"rope_scaling": "yarn", "yarn_orig_ctx": 4096}, TRAINED),
        ({"rope_scaling": "linear", "rope_scale": 2}, TRAINED),
        ({"rope_scale": 2}, TRAINED),
        ({"override_kv": "llama.context_length=int:16384"}, 16_384),
    ],
)
def test_llama_server_ends_requests_where_only_yarn_by_flags_moves_it(args: dict[str, Any], longest: int) -> None:
    """As a real b11434 did with each of them; `test_llamacpp_real` asks it again."""
    assert reach("llama.cpp", model(), **args) == longest
    wanted = variant("llama.cpp", 32_768, {name.replace("_", "-"): value for name, value in args.items()})
    found = planned(model(), wanted)
    assert isinstance(found.kv, SlotKv)
    assert (found.kv.slot_context, found.refusals) == (longest, ())
    assert f"a request ends at the model's {longest:,} tokens, in a cache of 32,768" in found.notes


def test_a_file_s_own_scaling_is_in_the_length_that_it_states_and_is_said() -> None:
    extended = model(YARN, stated=4 * TRAINED)
    assert reach("llama.cpp", extended) == 4 * TRAINED
    for kind in ("llama.cpp", "vllm"):
        notes = planned(extended, variant(kind, 4 * TRAINED)).notes
        assert "positions are scaled (yarn, 4 times 8,192 tokens), also those of short requests" in notes
        assert not any("positions are scaled" in note for note in planned(extended, variant(kind, TRAINED)).notes)


def test_the_longest_context_ends_where_the_model_does() -> None:
    wanted = PlanRequest("llama.cpp", (PlannedDevice("cpu", 64 * GIB),), device_kind="cpu", parallel=1)
    assert longest_context(wanted, model()) == TRAINED
    assert longest_context(replace(wanted, rope=Rope("yarn", 2.0)), model()) == 2 * TRAINED


@pytest.mark.parametrize(
    ("config", "rope"),
    [
        ({}, None),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}, None),
        ({"rope_scaling": {"type": "mrope", "mrope_section": [1, 2]}}, None),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192}}, YARN),
        ({"text_config": {"rope_scaling": {"rope_type": "linear", "factor": 8}}}, Rope("linear", 8)),
        (
            {"rope_parameters": {"full": {"rope_type": "linear", "factor": 8.0}, "sliding": {"rope_type": "default"}}},
            Rope("linear", 8.0),
        ),
        (
            {"rope_scaling": {"type": "longrope"}, "original_max_position_embeddings": 4096},
            Rope("longrope", None, 4096),
        ),
        ({"rope_scaling": {"type": "dynamic", "factor": None}}, Rope("dynamic")),
        ({"rope_scaling": "yarn"}, None),
    ],
)
def test_a_config_s_scaling_is_read_in_all_its_forms(config: dict[str, Any], rope: Rope | None) -> None:
    assert rope_of(HfConfig(config, "config.json")) == rope


@pytest.mark.parametrize(
    ("config", "tokens"),
    [
        ({"max_position_embeddings": 8192}, 8192),
        ({"n_positions": 1024}, 1024),
        ({"max_position_embeddings": 8192, "seq_length": 2048}, 2048),
        ({"max_position_embeddings": 8192, "model_max_length": 131_072}, 131_072),
        ({"max_position_embeddings": "long"}, None),
        ({}, None),
    ],
)
def test_a_config_s_length_is_found_under_its_many_names(config: dict[str, Any], tokens: int | None) -> None:
    assert context_of(HfConfig(config, "config.json")) == tokens
