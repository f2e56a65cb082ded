"""Flag maps: lookups, the packaged tables, the history of vLLM's flags, JSON."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.domain.engine import Flag
from gearshift.engines import packaged_flags
from gearshift.engines.flags import distinct, find_flag, flag_map, from_json, to_json


def names(version: str) -> set[str]:
    return {flag.name for flag in distinct(packaged_flags("vllm", version))}


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("max-model-len", "max-model-len"),
        ("max_model_len", "max-model-len"),
        ("--max-model-len", "max-model-len"),
        ("tp", "tensor-parallel-size"),
        ("no-enable-prefix-caching", "enable-prefix-caching"),
        ("kv-cache-memory", "kv-cache-memory-bytes"),
        ("speculative-config.method", "speculative-config"),
        ("sc", "speculative-config"),
    ],
)
def test_vllm_flags_are_found_as_argparse_would(name: str, canonical: str) -> None:
    flag = find_flag(packaged_flags("vllm"), name)
    assert flag is not None
    assert flag.name == canonical


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("ngl", "gpu-layers"),
        ("n-gpu-layers", "gpu-layers"),
        ("c", "ctx-size"),
        ("nkvo", "kv-offload"),
        ("fa", "flash-attn"),
    ],
)
def test_llamacpp_flags_are_found_by_any_name(name: str, canonical: str) -> None:
    flag = find_flag(packaged_flags("llama.cpp"), name)
    assert flag is not None
    assert flag.name == canonical


def test_an_ambiguous_prefix_is_no_flag_and_llamacpp_takes_no_prefix_at_all() -> None:
    assert find_flag(packaged_flags("vllm"), "max-num") is None
    assert find_flag(packaged_flags("llama.cpp"), "ctx-siz") is None


def test_packaged_tables_are_never_verified_and_name_their_version() -> None:
    for kind, newest in (("llama.cpp", "11434"), ("vllm", "0.32.0")):
        flags = packaged_flags("vllm" if kind == "vllm" else "llama.cpp")
        assert (flags.version, flags.verified) == (newest, False)
        assert len(distinct(flags)) > 200


def test_llamacpp_s_mmap_family_exists_only_in_older_builds() -> None:
    assert find_flag(packaged_flags("llama.cpp", "9849"), "no-mmap") is not None
    assert find_flag(packaged_flags("llama.cpp", "b11146"), "no-mmap") is None
    assert find_flag(packaged_flags("llama.cpp", "my-fork"), "no-mmap") is None


@pytest.mark.parametrize(
    ("name", "first", "gone"),
    [
        ("calculate-kv-scales", 22, 28),
        ("max-num-partial-prefills", 22, 27),
        ("enable-bf16x3-router-gemm", 26, 30),
        ("enable-mamba-fine-grained-prefix-cache", 30, 31),
        ("enable-mamba-shared-prefix-checkpoint", 31, 34),
        ("use-replayssm", 27, 34),
        ("max-model-len", 22, 34),
        ("watchdog-config", 33, 34),
        ("enable-hc-sp", 32, 34),
    ],
)
def test_a_vllm_flag_exists_between_its_first_and_its_last_release(name: str, first: int, gone: int) -> None:
    there = {minor for minor in range(22, 34) if name in names(f"0.{minor}.0")}
    assert there == set(range(first, gone))


def test_values_that_came_later_are_no_choices_of_older_releases() -> None:
    def choices(version: str, name: str) -> set[str]:
        flag = find_flag(packaged_flags("vllm", version), name)
        assert flag is not None
        return set(flag.choices)

    assert "nvfp4_4over6" in choices("0.29.0", "kv-cache-dtype")
    assert "nvfp4_4over6" not in choices("0.28.0", "kv-cache-dtype")
    assert "int4_per_token_head" not in choices("0.26.0", "kv-cache-dtype")
    assert "all" in choices("0.31.0", "mamba-cache-mode")
    assert "all" not in choices("0.32.0", "mamba-cache-mode")


def test_the_alias_of_the_memory_share_came_in_0_31() -> None:
    assert find_flag(packaged_flags("vllm", "0.30.0"), "device-memory-utilization") is None
    assert find_flag(packaged_flags("vllm", "0.31.0"), "device-memory-utilization") is not None


@pytest.mark.parametrize(("version", "like"), [("0.19.0", "0.22.0"), ("0.40.1", "0.33.0"), ("main", "0.33.0")])
def test_a_version_outside_the_history_gets_the_nearest_table(version: str, like: str) -> None:
    assert names(version) == names(like)


def test_a_command_engine_has_no_flags() -> None:
    assert packaged_flags("command").flags == {}


WORDS = st.text(alphabet="abcdefghij-", min_size=1, max_size=12)
FLAGS = st.lists(
    st.builds(
        Flag,
        name=WORDS,
        aliases=st.lists(WORDS, max_size=3).map(tuple),
        takes_value=st.booleans(),
        repeatable=st.booleans(),
        choices=st.lists(WORDS, max_size=3).map(tuple),
        value_optional=st.booleans(),
        negations=st.lists(WORDS, max_size=2).map(tuple),
    ),
    unique_by=lambda flag: flag.name,
    max_size=6,
)


@given(flags=FLAGS)
def test_a_map_survives_json(flags: list[Flag]) -> None:
    before = flag_map("vllm", "0.32.0", flags, verified=True)
    after = from_json(to_json(before), verified=True)
    assert distinct(after) == distinct(before)
    assert {name: after.flags[name] for name in before.flags if name in after.flags} == dict(after.flags)
