"""What a person asks: how long, how many, what frees most; and what must never turn the other way."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.artifacts.facts import ModelFacts, TensorGroup
from gearshift.domain.variant import Speculation
from gearshift.planner.answers import levers, longest_context, required_bytes, streams_at_once
from gearshift.planner.calibration import Calibration
from gearshift.planner.ceiling import decode_ceiling
from gearshift.planner.document import plan_document
from gearshift.planner.gpus import parse_gpu
from gearshift.planner.ledger import PagedKv
from gearshift.planner.planning import plan, settled
from gearshift.planner.request import PlannedDevice, PlanRequest
from gearshift.planner.workload import hardware_of, workload_of
from planner.models import GIB, MIB, gemma4_12b_gguf, gpt_oss20b, qwen06b, qwen27b, qwen27b_gguf, smollm2

Q4_27B = replace(
    qwen27b_gguf(),
    tensors=(
        TensorGroup("body", "Q4_K", 1, 64 * 240 * MIB, 24_351_000_000),
        TensorGroup("head", "Q6_K", 1, 995 * MIB, 1_271_000_000),
        TensorGroup("mtp", "Q6_K", 1, 332 * MIB, 425_000_000),
        TensorGroup("embedding", "Q4_K", 1, 682 * MIB, 1_271_000_000),
    ),
    layer_bytes=(240 * MIB,) * 64 + (332 * MIB,),
)


def llamacpp(**knobs: object) -> PlanRequest:
    base = PlanRequest("llama.cpp", (PlannedDevice("GPU-a", 24 * GIB),), context=32_768, parallel=None)
    return replace(base, **knobs)  # type: ignore[arg-type]  # knobs differ in type by name


def vllm(**knobs: object) -> PlanRequest:
    base = PlanRequest(
        "vllm", (PlannedDevice("GPU-a", 32 * GIB),), version="0.27.1", context=262_144, kv_dtype="fp8",
        prefix_caching=True, parallel=3, kv_bytes=9_150_000_000,
    )  # fmt: skip
    return replace(base, **knobs)  # type: ignore[arg-type]  # knobs differ in type by name


def test_the_longest_context_fits_and_the_next_step_does_not() -> None:
    wanted = llamacpp(parallel=1)
    longest = longest_context(wanted, Q4_27B)
    assert longest is not None
    assert 0 < longest < 262_144

    def planned(context: int) -> int:
        return plan(replace(wanted, context=context), Q4_27B).ledger[0].planned_bytes

    assert planned(longest) <= 24 * GIB < planned(longest + 256)


def test_two_cards_hold_a_longer_context_than_one() -> None:
    one = longest_context(llamacpp(parallel=1, kv_dtype="q8_0"), Q4_27B)
    two = longest_context(
        llamacpp(parallel=1, kv_dtype="q8_0", devices=tuple(PlannedDevice(f"GPU-{n}", 24 * GIB) for n in "ab")), Q4_27B
    )
    assert one is not None
    assert two is not None
    assert one < two


def test_an_unknown_card_has_no_longest_context() -> None:
    assert longest_context(llamacpp(devices=(PlannedDevice("GPU-a", None),)), Q4_27B) is None
    assert longest_context(vllm(kv_bytes=None), qwen27b()) is None


def test_a_pinned_pool_answers_without_knowing_the_card() -> None:
    assert longest_context(vllm(kv_bytes=8_939_000_000), qwen27b()) == 261_856


def test_r3_asked_whether_36_gb_of_weights_leave_128k_on_two_24_gib_cards() -> None:
    facts = replace(qwen27b(), vision=False, tensors=(TensorGroup("body", "I8", 1, 36_000_000_000, 1),))
    wanted = vllm(
        version="0.22.1",
        devices=tuple(PlannedDevice(f"GPU-{n}", 24 * GIB) for n in "ab"),
        kv_dtype="fp8_e5m2",
        kv_bytes=None,
        context=32_768,
        max_num_batched_tokens=8192,
        speculation=Speculation("mtp", 2),
    )
    longest = longest_context(wanted, facts)
    assert longest is not None
    assert longest > 131_072


def test_slots_are_not_full_length_requests() -> None:
    """R1: three sequences, but one window; a shorter length shares the pool."""
    wanted = vllm()
    planned = plan(wanted, qwen27b())
    assert streams_at_once(planned, wanted, qwen27b(), length=262_144) == 1
    assert streams_at_once(planned, wanted, qwen27b(), length=32_768) == 3
    assert streams_at_once(planned, replace(wanted, parallel=100), qwen27b(), length=32_768) == 177 // (21 + 3 * 2)


@pytest.mark.parametrize(
    ("knobs", "length", "streams"),
    [
        ({"parallel": None}, 8_192, 4),
        ({"parallel": None}, 16_384, 2),  # one unified pool of 32,768
        ({"parallel": 2}, 16_384, 2),
        ({"parallel": 2}, 16_385, 0),  # a slot holds no more than its half
    ],
)
def test_llama_cpp_streams_depend_on_how_the_cache_is_cut(knobs: dict[str, int], length: int, streams: int) -> None:
    wanted = llamacpp(**knobs)
    assert streams_at_once(plan(wanted, Q4_27B), wanted, Q4_27B, length=length) == streams


def test_slots_are_the_first_lever_of_a_hybrid_with_a_draft_head() -> None:
    """Four slots with three drafted tokens keep 16 rows of state, 1.8 GiB of them for nothing in single use."""
    found = levers(llamacpp(context=8192, speculation=Speculation("mtp", 3)), Q4_27B)
    by_name = {lever.name: lever for lever in found}
    assert by_name["slots"].change == "parallel 4 -> 1"
    assert by_name["slots"].freed_bytes == pytest.approx(3 * 4 * 149.625 * MIB, rel=0.001)
    assert by_name["kv type"].change == "kv_dtype f16 -> q8_0"
    assert by_name["speculation"].freed_bytes > 2 * GIB
    assert [lever.freed_bytes for lever in found] == sorted((lever.freed_bytes for lever in found), reverse=True)


def test_a_lever_frees_what_it_frees_also_where_an_earlier_start_was_measured() -> None:
    wanted = llamacpp(context=8192)
    seen = Calibration(lines={wanted.devices[0].id: {"compute": 700 * MIB}})
    assert levers(replace(wanted, calibration=seen), Q4_27B) == levers(wanted, Q4_27B)


def test_a_vllm_plan_frees_by_context_speculation_and_type() -> None:
    found = {lever.name for lever in levers(vllm(kv_dtype=None, speculation=Speculation("mtp", 3)), qwen27b())}
    assert found == {"kv type", "speculation", "context"}


FACTS = st.sampled_from([qwen27b(), qwen06b(), gpt_oss20b()])
POOLS = st.integers(10**8, 10**11)


@given(facts=FACTS, pool=POOLS, more=st.integers(0, 10**10), drafted=st.integers(0, 4))
def test_a_bigger_pool_never_holds_fewer_tokens(facts: ModelFacts, pool: int, more: int, drafted: int) -> None:
    def kv(size: int) -> PagedKv:
        speculation = Speculation("mtp", drafted) if drafted else None
        found = plan(vllm(context=32_768, kv_bytes=size, speculation=speculation), facts).kv
        assert isinstance(found, PagedKv)
        return found

    small, large = kv(pool), kv(pool + more)
    assert (small.tokens or 0) <= (large.tokens or 0)
    assert (small.max_context or 0) <= (large.max_context or 0)


@given(facts=FACTS, context=st.integers(1, 300_000), version=st.sampled_from(["0.25.1", "0.27.1", "0.29.0", "0.33.0"]))
def test_the_smallest_pool_starts_and_one_byte_less_does_not(facts: ModelFacts, context: int, version: str) -> None:
    wanted = vllm(context=context, version=version, kv_bytes=None, max_num_batched_tokens=8192, parallel=1, eager=True)
    wanted = replace(wanted, longer_allowed=True)
    kv = plan(wanted, facts).kv
    assert isinstance(kv, PagedKv)
    assert not plan(replace(wanted, kv_bytes=kv.min_bytes), facts).refusals
    assert plan(replace(wanted, kv_bytes=kv.min_bytes - 1), facts).refusals
    assert kv.recommended_bytes >= kv.min_bytes


@given(facts=FACTS, context=st.integers(1, 200_000), drafted=st.integers(0, 3), more=st.integers(1, 3))
def test_more_drafted_tokens_never_need_a_smaller_pool(
    facts: ModelFacts, context: int, drafted: int, more: int
) -> None:
    def needed(tokens: int) -> int:
        kv = plan(vllm(context=context, speculation=Speculation("mtp", tokens) if tokens else None), facts).kv
        assert isinstance(kv, PagedKv)
        return kv.min_bytes

    assert needed(drafted) <= needed(drafted + more)


LLAMA_FACTS = st.sampled_from([Q4_27B, smollm2(), gemma4_12b_gguf()])


@given(
    facts=LLAMA_FACTS,
    context=st.integers(256, 300_000),
    slots=st.integers(1, 16),
    ubatch=st.sampled_from([128, 256, 512, 1024]),
    unified=st.booleans(),
)
def test_nothing_more_ever_needs_less(
    facts: ModelFacts,
    context: int,
    slots: int,
    ubatch: int,
    unified: bool,  # noqa: FBT001 - drawn by hypothesis
) -> None:
    wanted = llamacpp(context=context, parallel=slots, ubatch=ubatch, unified_kv=unified)
    base = required_bytes(wanted, facts)
    assert base <= required_bytes(replace(wanted, context=context + 4096), facts)
    assert base <= required_bytes(replace(wanted, ubatch=2 * ubatch), facts)
    assert base <= required_bytes(replace(wanted, kv_dtype="f32"), facts)
    if unified:  # cutting a cache into padded parts can round either way
        assert base <= required_bytes(replace(wanted, parallel=slots + 1), facts)


@given(
    blocks=st.integers(1, 80),
    shares=st.lists(st.floats(0.1, 10), min_size=1, max_size=4),
    kv=st.sampled_from(["f16", "q8_0", "q4_0"]),
)
def test_splitting_never_loses_a_byte(blocks: int, shares: list[float], kv: str) -> None:
    facts = replace(Q4_27B, layers=Q4_27B.layers[:blocks], layer_bytes=(MIB,) * (min(blocks, 64) + 1))
    cards = tuple(PlannedDevice(f"GPU-{n}", None) for n in range(len(shares)))
    split = plan(llamacpp(devices=cards, shares=tuple(shares), kv_dtype=kv), facts)
    whole = plan(llamacpp(kv_dtype=kv), facts)
    for name in ("kv cache", "recurrent state"):
        assert sum(line.bytes for ledger in split.ledger for line in ledger.lines if line.name == name) == sum(
            line.bytes for line in whole.ledger[0].lines if line.name == name
        )


def test_a_plan_prints_the_keys_other_tools_read() -> None:
    document = plan_document(plan(vllm(), qwen27b()))
    assert document["fits"] is None
    assert document["kv"] == {
        "block_size": 1568,
        "bytes_per_block": 51_380_224,
        "blocks": 178,
        "blocks_per_request": 174,
        "tokens": 268_170,
        "concurrency": 178 / 174,
        "max_context": 262_144,
        "min_bytes": 8_940_158_976,
        "recommended_bytes": 8_991_539_200,
        "exact": True,
    }
    assert document["ceiling"] == {
        "tok_s": None,
        "dominant": None,
        "tokens_per_step": None,
        "terms": dict.fromkeys(("weights_s", "kv_s", "state_s", "draft_s", "compute_s", "step_s")),
    }


def test_a_llama_cpp_plan_prints_its_caches_and_state() -> None:
    document = plan_document(plan(llamacpp(parallel=1, speculation=Speculation("mtp", 2)), Q4_27B))
    kv = document["kv"]
    assert isinstance(kv, dict)
    assert (kv["bytes"], kv["bytes_per_token"], kv["draft_bytes"]) == (2048 * MIB, 65_536, 128 * MIB)
    assert document["state"] == {"bytes": 3 * 156_893_184, "rows": 3}


def test_a_ceiling_comes_from_the_same_facts_and_request() -> None:
    wanted, gpu = llamacpp(parallel=1, kv_dtype="q4_0", speculation=Speculation("mtp", 2)), parse_gpu("RTX 3090")
    work = workload_of(wanted, Q4_27B)
    assert work is not None
    assert (work.kv_token_bytes, work.state_bytes, work.catches_up) == (18_432, 156_893_184, True)
    bound = decode_ceiling(work, hardware_of(wanted, gpu), depth=1000, acceptance=(0.8, 0.6))
    printed = plan_document(plan(wanted, Q4_27B), bound)["ceiling"]
    assert isinstance(printed, dict)
    assert printed["dominant"] == "weights"
    assert isinstance(printed["terms"], dict)
    assert set(printed["terms"]) == {"weights_s", "kv_s", "state_s", "draft_s", "compute_s", "step_s"}


def test_layer_split_lets_one_card_work_at_a_time() -> None:
    gpu, cards = parse_gpu("RTX 3090"), tuple(PlannedDevice(f"GPU-{n}", None) for n in "ab")
    assert hardware_of(llamacpp(devices=cards), gpu).cards == 1
    assert hardware_of(llamacpp(devices=cards, split="tensor"), gpu).cards == 2
    assert hardware_of(vllm(devices=cards), gpu).cards == 2


@pytest.mark.parametrize("version", ["0.27.1", "0.32.0"])
def test_the_longest_context_of_an_automatic_pool_is_the_last_that_surely_fits(version: str) -> None:
    facts = replace(qwen27b(), stated_bytes=18 * GIB)
    asked = vllm(version=version, kv_bytes=None, context=16_384, devices=(PlannedDevice("GPU-a", 24 * GIB),))
    longest = longest_context(asked, facts, automatic_pool=True)
    assert longest is not None
    fits = [
        plan(settled(replace(asked, context=context), facts, automatic_pool=True), facts).fits
        for context in (longest, longest + 1)
    ]
    assert fits == [True, None]
    unknown = replace(asked, devices=(PlannedDevice("GPU-a", None),))
    assert longest_context(unknown, facts, automatic_pool=True) is None
