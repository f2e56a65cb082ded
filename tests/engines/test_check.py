"""Checking a variant's flags: each finding with its place, its words and its severity."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from gearshift.domain.errors import Problem
from gearshift.domain.variant import ArgValue, EngineKind, EngineRef, Sleep, Speculation, Variant
from gearshift.engines import check, packaged_flags
from gearshift.engines.flags import distinct

PLACE = "models.m.variants.v"


def problems(
    kind: EngineKind, version: str | None = None, *, verified: bool = True, **fields: Any
) -> tuple[Problem, ...]:
    variant = replace(Variant("m", "v", EngineRef(kind)), **fields)
    return check(variant, replace(packaged_flags(kind, version), verified=verified), PLACE)


def words(found: tuple[Problem, ...]) -> list[tuple[str, str, str]]:
    """Place, message and the begin of the hint."""
    return [(item.path.removeprefix(f"{PLACE}."), item.message, (item.hint or "")[:60]) for item in found]


def test_flags_that_are_fine_are_not_mentioned() -> None:
    args: dict[str, ArgValue] = {
        "split-mode": "tensor",
        "tensor-split": (50, 50),
        "flash-attn": True,
        "cache-reuse": 256,
        "jinja": None,
        "context-shift": False,
        "device": "CUDA0,CUDA1",
    }
    assert problems("llama.cpp", args=args, kv_dtype="q8_0,q4_0", speculation=Speculation("mtp", 3)) == ()
    args = {
        "quantization": "auto_round",
        "disable-custom-all-reduce": True,
        "trust_remote_code": None,
        "hf-token": None,
        "compilation-config.mode": 3,
        "served-model-name": ("a", "b"),
        "speculative-config": '{"method":"mtp","num_speculative_tokens":2}',
    }
    assert problems("vllm", args=args, kv_dtype="fp8_e5m2") == ()


def test_each_wrong_vllm_flag_is_named_with_the_way_out() -> None:
    args: dict[str, ArgValue] = {
        "swap-space": 4,
        "calculate-kv-scales": True,
        "port": 8000,
        "enforce-eager": 3,
        "kv-cache-dtype": "fp9",
        "max-num-batched-tokens": None,
        "tool-call-parserr": "x",
        "no_enable_prefix_caching": None,
        "enable-prefix-caching": True,
    }
    assert words(problems("vllm", args=args)) == snapshot(
        [
            (
                "args.swap-space",
                "vllm 0.32.0 no longer takes swap-space",
                "remove it; a request that does not fit is computed again",
            ),
            (
                "args.calculate-kv-scales",
                "vllm 0.32.0 no longer takes calculate-kv-scales",
                "removed in 0.28; use a checkpoint with calibrated scales",
            ),
            ("args.port", "port cannot be set in args", "Gearshift picks a free port at each start"),
            ("args.enforce-eager", "enforce-eager takes no value, 3 was given", "write enforce-eager: true"),
            (
                "args.kv-cache-dtype",
                "kv-cache-dtype does not take 'fp9'",
                "one of auto, bfloat16, float16, fp8, fp8_ds_mla, fp8_e4m3, f",
            ),
            ("args.max-num-batched-tokens", "max-num-batched-tokens needs a value", ""),
            ("args.tool-call-parserr", "vllm 0.32.0 has no flag tool-call-parserr", "did you mean tool-call-parser?"),
            (
                "args.enable-prefix-caching",
                "enable-prefix-caching and no_enable_prefix_caching are the same flag",
                "keep one of them",
            ),
        ]
    )


def test_each_wrong_llamacpp_flag_is_named_with_the_way_out() -> None:
    args: dict[str, ArgValue] = {
        "no-mmap": None,
        "draft-max": 3,
        "ngl": 99,
        "n-gpu-layers": 4,
        "split-mode": "tenor",
        "b": None,
        "models-dir": "/m",
        "spec-typ": "x",
    }
    assert words(problems("llama.cpp", args=args)) == snapshot(
        [
            ("args.no-mmap", "llama.cpp 11434 no longer takes no-mmap", "write args load-mode: none"),
            (
                "args.draft-max",
                "llama.cpp 11434 no longer takes draft-max",
                "write args spec-draft-n-max, or speculation: {method: ..., t",
            ),
            ("args.split-mode", "split-mode does not take 'tenor'", "one of none, layer, row, tensor"),
            ("args.b", "b needs a value", ""),
            (
                "args.models-dir",
                "models-dir cannot be set in args",
                "the router mode of llama-server would swap by itself; write ",
            ),
            ("args.spec-typ", "llama.cpp 11434 has no flag spec-typ", "did you mean spec-type?"),
            ("args.n-gpu-layers", "n-gpu-layers and ngl are the same flag", "keep one of them"),
        ]
    )


def test_a_flag_that_the_table_alone_misses_is_a_warning_but_what_holds_anyway_is_an_error() -> None:
    args: dict[str, ArgValue] = {"no-such": 1, "host": "0.0.0.0", "c": 1}
    found = problems("llama.cpp", verified=False, args=args, context=2)
    assert [(problem.severity, problem.path.rsplit(".", 1)[1]) for problem in found] == [
        ("warning", "no-such"),
        ("error", "host"),
        ("error", "c"),
    ]
    assert "not verified against a binary" in str(found[0].hint)


@pytest.mark.parametrize(
    ("kind", "args", "fields", "message"),
    [
        ("vllm", {"max_model_len": 5}, {"context": 5}, "max_model_len repeats the variant's context"),
        ("vllm", {"tp": 2}, {"gpus": (0, 1)}, "tp repeats the variant's gpus"),
        ("vllm", {"kv-cache-memory": 5}, {"kv_bytes": "auto"}, "kv-cache-memory repeats the variant's kv_bytes"),
        ("vllm", {"sc": "{}"}, {"speculation": Speculation("mtp", 1)}, "sc repeats the variant's speculation"),
        ("llama.cpp", {"np": 2}, {"parallel": 1}, "np repeats the variant's parallel"),
        ("llama.cpp", {"ctv": "q8_0"}, {"kv_dtype": "q8_0"}, "ctv repeats the variant's kv_dtype"),
    ],
)
def test_a_flag_beside_the_neutral_field_it_duplicates_is_given_twice(
    kind: EngineKind, args: dict[str, ArgValue], fields: dict[str, Any], message: str
) -> None:
    assert [problem.message for problem in problems(kind, args=args, **fields)] == [message]
    assert problems(kind, args=args) == ()


@pytest.mark.parametrize(
    ("version", "method", "hint"),
    [
        ("0.32.0", "mtp", None),
        ("0.32.0", "ngram", None),
        ("0.32.0", "off", None),
        ("0.32.0", "qwen3_5_mtp", "write mtp"),
        ("0.33.0", "medusa", "one of"),
        ("0.32.0", "medusa", None),
        ("0.24.0", "dspark", "one of"),
        ("0.25.0", "dspark", None),
        ("0.32.0", "eagle4", "did you mean"),
    ],
)
def test_vllm_methods_are_those_of_the_version(version: str, method: str, hint: str | None) -> None:
    found = problems("vllm", version, speculation=Speculation(method, 2))
    assert [hint in str(problem.hint) for problem in found if hint] == ([True] if hint else [])
    assert bool(found) == bool(hint)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ('{"method":"qwen3_5_mtp","num_speculative_tokens":3}', "method qwen3_5_mtp is deprecated"),
        ('{"method":"mtp","num_speculative_token":3}', "does not know the key 'num_speculative_token'"),
        ('{"method":"mtp","kv_cache_dtype":"fp8"}', "does not know the key 'kv_cache_dtype'"),
        ("{method: mtp}", "not JSON"),
        ("[1]", "not a JSON object"),
    ],
)
def test_a_speculative_config_is_read_as_0_25_would(config: str, message: str) -> None:
    found = problems("vllm", "0.25.1", args={"speculative-config": config})
    assert [message in problem.message for problem in found] == [True]
    assert found[0].path == f"{PLACE}.args.speculative-config"


def test_the_same_key_is_fine_in_the_version_that_brought_it() -> None:
    assert problems("vllm", "0.26.0", args={"speculative-config": '{"method":"mtp","kv_cache_dtype":"fp8"}'}) == ()


def test_llamacpp_methods_are_the_build_s_spec_types() -> None:
    assert problems("llama.cpp", speculation=Speculation("ngram-simple,ngram-mod", 2)) == ()
    (found,) = problems("llama.cpp", speculation=Speculation("mpt", 2))
    assert (found.path, found.severity) == (f"{PLACE}.speculation.method", "error")


def test_a_draft_needs_weights() -> None:
    (found,) = problems("vllm", speculation=Speculation("draft", 2))
    assert (found.path, found.hint) == (f"{PLACE}.speculation.draft", "add draft: PATH")


@pytest.mark.parametrize(("kind", "kv_dtype"), [("llama.cpp", "q8_0,fp8"), ("vllm", "q8_0"), ("llama.cpp", "q9")])
def test_a_cache_type_of_the_other_engine_is_refused_with_the_list(kind: EngineKind, kv_dtype: str) -> None:
    (found,) = problems(kind, kv_dtype=kv_dtype)
    assert found.path == f"{PLACE}.kv_dtype"
    assert str(found.hint).startswith("one of ")


def test_variables_that_change_flags_unseen_or_do_nothing_any_more_are_named() -> None:
    (gone,) = problems("vllm", env={"VLLM_ATTENTION_BACKEND": "FLASHINFER"})
    assert gone.hint == "write args attention-backend"
    (unseen,) = problems("llama.cpp", env={"LLAMA_ARG_CTX_SIZE": "1"}, verified=False)
    assert (unseen.path, unseen.severity) == (f"{PLACE}.env.LLAMA_ARG_CTX_SIZE", "error")


def test_sleep_is_vllm_s_and_does_not_bear_expandable_segments() -> None:
    (found,) = problems("llama.cpp", sleep=Sleep())
    assert found.path == f"{PLACE}.sleep"
    (found,) = problems("vllm", sleep=Sleep(), env={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})
    assert found.path == f"{PLACE}.env.PYTORCH_CUDA_ALLOC_CONF"
    assert problems("vllm", sleep=Sleep()) == ()


def test_a_command_takes_no_flags_but_its_served_name() -> None:
    (found,) = problems("command", args={"served-model-name": "m", "ctx-size": 5})
    assert (found.path, found.severity) == (f"{PLACE}.args.ctx-size", "error")


VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8), st.tuples(st.text(max_size=4)))


@pytest.mark.parametrize("kind", ["llama.cpp", "vllm"])
@given(data=st.data())
def test_no_arguments_make_the_check_raise_and_each_finding_has_its_place(
    kind: EngineKind, data: st.DataObject
) -> None:
    known = [flag.name for flag in distinct(packaged_flags(kind))]
    name = st.one_of(st.sampled_from(known), st.text(max_size=10))
    args = data.draw(st.dictionaries(name, VALUES, max_size=5))
    for problem in problems(kind, args=args):
        assert problem.path.startswith(f"{PLACE}.args.")
        assert problem.message
