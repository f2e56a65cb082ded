"""llama.cpp's caches and buffers against public logs, to the 0.01 MiB that a log prints."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gearshift.artifacts.facts import Layer, ModelFacts, MtpFacts, TensorGroup
from gearshift.domain.variant import Speculation
from gearshift.planner.ledger import Plan, SlotKv
from gearshift.planner.llamacpp_blocks import block_sizes
from gearshift.planner.llamacpp_caches import cells_of, state_row_bytes, state_rows
from gearshift.planner.llamacpp_compute import Batch, device_compute, host_compute
from gearshift.planner.llamacpp_split import HOST, place_layers
from gearshift.planner.planning import plan
from gearshift.planner.request import PlannedDevice, PlanRequest, Split
from planner.models import GIB, MIB, dense, gemma4_12b_gguf, qwen9b_gguf, qwen27b_gguf, smollm2

MTP3 = Speculation("mtp", 3)


def request(  # the knobs of the public logs
    *,
    context: int = 8192,
    parallel: int | None = 1,
    kv: str | None = None,
    draft_kv: str | None = None,
    mtp: int = 0,
    ubatch: int = 512,
    cards: int = 1,
    card_bytes: int | None = 24 * GIB,
    split: Split = "layer",
    unified: bool | None = None,
    gpu_layers: int | None = None,
) -> PlanRequest:
    return PlanRequest(
        engine="llama.cpp",
        devices=tuple(PlannedDevice(f"gpu{index}", card_bytes) for index in range(cards)),
        context=context,
        parallel=parallel,
        kv_dtype=kv,
        draft_kv_dtype=draft_kv,
        ubatch=ubatch,
        split=split,
        unified_kv=unified,
        gpu_layers=gpu_layers,
        speculation=Speculation("mtp", mtp) if mtp else None,
    )


def slots(wanted: PlanRequest, facts: ModelFacts) -> SlotKv:
    kv = plan(wanted, facts).kv
    assert isinstance(kv, SlotKv)
    return kv


def mib(size: float) -> float:
    return round(size / MIB, 2)


def on(planned: Plan, card: int, name: str) -> float:
    """One line of one card's ledger in MiB, 0 where it is absent."""
    return mib(sum(line.bytes for line in planned.ledger[card].lines if line.name == name))


@pytest.mark.parametrize(
    ("wanted", "cache", "draft", "state"),
    [
        (request(mtp=2), 512.00, 32.00, 448.88),
        (request(mtp=2, draft_kv="q8_0"), 512.00, 17.00, 448.88),
        (request(context=131_072, parallel=4, unified=True, kv="q8_0"), 4352.00, 0.0, 598.50),
        (request(context=131_072, kv="q8_0", draft_kv="q8_0", mtp=3), 4352.00, 272.00, 598.50),
        (request(context=524_288, mtp=3), 32_768.00, 2048.00, 598.50),
        (request(parallel=None, mtp=3), 512.00, 32.00, 2394.00),
        (request(parallel=None), 512.00, 0.0, 598.50),
        (request(mtp=6), 512.00, 32.00, 1047.38),
    ],
)
def test_the_27b_keeps_what_its_logs_say(wanted: PlanRequest, cache: float, draft: float, state: float) -> None:
    kv = slots(wanted, qwen27b_gguf())
    assert (mib(kv.bytes), mib(kv.draft_bytes or 0), mib(kv.state_bytes)) == (cache, draft, state)


@pytest.mark.parametrize(("kind", "token_bytes"), [("f16", 65_536), ("q8_0", 34_816), ("q4_0", 18_432)])
def test_a_token_costs_its_attention_layers(kind: str, token_bytes: int) -> None:
    assert slots(request(kv=kind), qwen27b_gguf()).bytes_per_token == token_bytes


def test_keys_and_values_may_differ() -> None:
    kv = slots(request(kv="q8_0,q4_0"), qwen27b_gguf())
    assert kv.bytes_per_token == (34_816 + 18_432) // 2


def test_an_unknown_cache_type_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"'fp8' is no llama\.cpp cache type; it has f32, f16, bf16, q8_0"):
        plan(request(kv="fp8"), qwen27b_gguf())


def test_one_row_of_the_27bs_state_is_149_mib() -> None:
    assert 48 * state_row_bytes(qwen27b_gguf()) == 156_893_184


def test_a_model_that_cannot_roll_back_keeps_one_row_a_slot() -> None:
    facts = replace(qwen27b_gguf(), family="qwen3next")
    wanted = request(mtp=3)
    assert state_rows(wanted, facts, cells_of(wanted, facts)) == 1


def test_sliding_layers_grow_with_the_micro_batch_and_stop_at_the_window() -> None:
    wanted, facts = request(ubatch=2048), gemma4_12b_gguf()
    sizes = block_sizes(wanted, facts, cells_of(wanted, facts))
    by_kind = {
        kind: sum(size for size, layer in zip(sizes.kv, facts.layers, strict=False) if layer.kind == kind)
        for kind in ("full", "sliding")
    }
    assert {kind: mib(size) for kind, size in by_kind.items()} == {"full": 128.00, "sliding": 960.00}


def test_a_full_sliding_cache_is_as_long_as_the_others() -> None:
    wanted = replace(request(ubatch=2048), full_sliding_cache=True)
    assert cells_of(wanted, gemma4_12b_gguf()).sliding == 8192


@pytest.mark.parametrize(
    ("wanted", "streams", "per_stream"),
    [
        (request(parallel=None), 1, 8192),  # four slots share one pool
        (request(parallel=1), 1, 8192),
        (request(parallel=3), 3, 2816),  # 8192 / 3 = 2730, padded to 256
        (request(parallel=3, unified=True), 1, 8192),
    ],
)
def test_slots_share_a_unified_cache_or_cut_it(wanted: PlanRequest, streams: int, per_stream: int) -> None:
    kv = slots(wanted, qwen27b_gguf())
    assert (kv.streams, kv.cells) == (streams, per_stream)
    assert kv.bytes == streams * per_stream * 65_536


def test_the_first_slot_is_never_longer_than_the_models_own_context() -> None:
    assert slots(request(context=524_288), qwen27b_gguf()).slot_context == 262_144
    capped, whole = (plan(request(context=context), qwen27b_gguf()).notes for context in (524_288, 262_144))
    assert "a request ends at the model's 262,144 tokens, in a cache of 524,288" in capped
    assert not any("trained length" in note for note in whole)


@pytest.mark.parametrize(
    ("facts", "batch", "host"),
    [
        (qwen27b_gguf(), Batch(2048, 8192, 1), 112.07),
        (gemma4_12b_gguf(), Batch(2048, 8192 + 3072, 1), 104.08),
        (qwen27b_gguf(), Batch(1024, 524_288, 4), 4136.14),
        (qwen27b_gguf(), Batch(512, 262_144, 1), 276.02),
    ],
)
def test_pinned_inputs_are_within_a_third_of_a_mib_of_the_logs(facts: ModelFacts, batch: Batch, host: float) -> None:
    assert host_compute(facts, batch) / MIB == pytest.approx(host, abs=0.3)


@pytest.mark.parametrize(
    ("facts", "cells", "context", "logged", "tolerance"),
    [
        (qwen27b_gguf(), 8192, "target", 560.06, 0.001),
        (qwen27b_gguf(), 8192, "draft", 520.06, 0.001),
        (gemma4_12b_gguf(), 8192 + 3072, "target", 529.07, 0.1),
    ],
)
def test_compute_buffers_are_within_their_stated_error(
    facts: ModelFacts, cells: int, context: str, logged: float, tolerance: float
) -> None:
    size = device_compute(facts, Batch(2048, cells, 1), draft=context == "draft")
    assert size / MIB == pytest.approx(logged, rel=tolerance)


def test_pipelined_cards_state_the_error_that_the_log_needs() -> None:
    planned = plan(request(context=524_288, mtp=3, ubatch=1024, cards=2), qwen27b_gguf())
    logged = {"compute": 6360.13, "draft compute": 4500.13}
    lines = {line.name: line for line in planned.ledger[1].lines if line.name in logged}
    for name, size in logged.items():
        assert abs(lines[name].bytes - size * MIB) <= lines[name].error_bytes


def weighing(facts: ModelFacts, device_mib: float) -> ModelFacts:
    """The facts with so much of weights on the device, whichever layers hold them."""
    return replace(
        facts,
        mtp=MtpFacts(1, complete=True) if facts.mtp_layers else None,
        tensors=(TensorGroup("head", "Q6_K", 1, int(device_mib * MIB), 1), TensorGroup("embedding", "Q8_0", 1, 10, 1)),
        layer_bytes=(0,) * (len(facts.layers) + len(facts.mtp_layers)),
    )


PROJECTOR = replace(request(context=131_072, kv="q8_0", draft_kv="q8_0", mtp=3), projector_bytes=1)


@pytest.mark.parametrize(
    ("facts", "wanted", "total"),
    [
        (weighing(qwen27b_gguf(), 18_163.06), request(mtp=2, ubatch=2048), 20_236.06),
        (weighing(gemma4_12b_gguf(), 6_637.63), request(ubatch=2048), 8_254.70),
        (weighing(qwen27b_gguf(), 16_386.94), PROJECTOR, 22_847.54),  # an older build, which reserved more
    ],
)
def test_public_totals_of_one_card_are_met_within_three_percent(
    facts: ModelFacts, wanted: PlanRequest, total: float
) -> None:
    (card,) = plan(wanted, facts).ledger
    ours = sum(line.bytes for line in card.lines if line.name not in {"driver", "fill reserve"})
    assert ours / MIB == pytest.approx(total, rel=0.03)


def test_room_is_kept_for_a_context_that_fills_after_the_start() -> None:
    """Public reports: about 8 MB for every 1,000 tokens; 353 MiB left at 262,144 died, half a GiB is kept besides."""
    for context, reserve in ((131_072, 1512.0), (262_144, 2512.0)):
        assert on(plan(request(context=context), qwen27b_gguf()), 0, "fill reserve") == reserve


def test_layers_of_two_equal_cards_fall_as_the_log_says() -> None:
    planned = plan(request(context=524_288, mtp=3, cards=2), qwen27b_gguf())
    assert (on(planned, 0, "kv cache"), on(planned, 1, "kv cache")) == (16_384.00, 16_384.00)
    assert (on(planned, 0, "recurrent state"), on(planned, 1, "recurrent state")) == (311.72, 286.78)
    assert (on(planned, 0, "draft kv cache"), on(planned, 1, "draft kv cache")) == (0.0, 2048.00)
    assert (on(planned, 0, "draft compute"), on(planned, 1, "draft compute") > 0) == (0.0, True)


def test_with_partial_offload_the_first_layers_stay_on_the_host() -> None:
    planned = plan(request(gpu_layers=20), qwen9b_gguf())
    assert on(planned, 0, "kv cache") == 160.00
    assert on(planned, 0, "recurrent state") == 29.31
    host = {line.name: mib(line.bytes) for line in planned.host}
    assert (host["kv cache"], host["recurrent state"]) == (96.00, 20.94)
    assert "layers stay on the host: expect a fraction of the speed" in planned.notes


def test_caches_can_be_kept_on_the_host() -> None:
    planned = plan(replace(request(mtp=2), caches_on_host=True), qwen27b_gguf())
    assert on(planned, 0, "kv cache") == on(planned, 0, "recurrent state") == 0.0
    host = {line.name: mib(line.bytes) for line in planned.host}
    assert (host["kv cache"], host["draft kv cache"], host["recurrent state"]) == (512.00, 32.00, 448.88)


def test_tensors_moved_by_an_override_make_the_weights_an_upper_bound() -> None:
    planned = plan(replace(request(context=4096), overrides=True), smollm2())
    weights = planned.ledger[0].lines[0]
    assert (weights.name, weights.kind, weights.error_bytes) == ("weights", "modelled", weights.bytes)
    assert any("upper bounds" in note for note in planned.notes)


def test_the_output_layer_is_one_more_layer_after_the_last() -> None:
    assert place_layers(32, (1.0,), 20) == (HOST,) * 13 + (0,) * 20
    assert place_layers(2, (1.0,), None) == (0, 0, 0)
    assert place_layers(2, (1.0,), 0) == (HOST,) * 3


def test_tensor_split_shares_caches_evenly() -> None:
    planned = plan(request(context=262_144, parallel=4, unified=True, mtp=2, cards=4, split="tensor"), qwen27b_gguf())
    assert [on(planned, card, "recurrent state") for card in range(4)] == [448.88] * 4
    assert [on(planned, card, "draft kv cache") for card in range(4)] == [256.00] * 4


def test_tensor_split_keeps_some_weights_on_every_card() -> None:
    total = int(26_400 * MIB)
    facts = replace(qwen27b_gguf(), tensors=(TensorGroup("head", "Q8_0", 1, total, 1),), layer_bytes=(0,) * 65)
    planned = plan(request(cards=4, split="tensor"), facts)
    (line,) = [line for line in planned.ledger[0].lines if line.name == "weights"]
    assert abs(line.bytes - 7252.51 * MIB) <= line.error_bytes


def test_a_draft_head_the_file_does_not_hold_is_refused() -> None:
    facts = replace(qwen27b_gguf(), mtp=MtpFacts(1, complete=False))
    assert plan(request(mtp=2), facts).refusals == (
        "draft-mtp was asked for, but the file holds no complete MTP block",
    )


def test_the_draft_heads_weights_are_loaded_only_when_it_drafts() -> None:
    facts = replace(
        qwen27b_gguf(),
        mtp=MtpFacts(1, complete=True),
        layer_bytes=(10,) * 64 + (7,),
        tensors=(TensorGroup("body", "F16", 1, 640, 1), TensorGroup("mtp", "F16", 1, 7, 1)),
    )
    sizes = [block_sizes(request(mtp=drafted), facts, cells_of(request(), facts)).weights for drafted in (0, 1)]
    assert [sum(column) for column in sizes] == [640, 647]


def test_smollm2_on_the_cpu_meets_a_recorded_start() -> None:
    """Own run of b11434 with -c 4096 -np 1: 92.10 mapped, 90.00 KV, 18.64 compute, 0.19 output."""
    wanted = replace(request(context=4096), devices=(PlannedDevice("cpu", 16 * GIB),), device_kind="cpu")
    planned = plan(wanted, smollm2())
    assert [on(planned, 0, name) for name in ("weights", "kv cache", "output buffer")] == [92.10, 90.00, 0.19]
    assert on(planned, 0, "compute") == pytest.approx(18.64, abs=0.02)
    assert planned.fits is True


def test_a_tied_head_is_copied_to_the_card_and_not_on_the_cpu() -> None:
    wanted = request(context=4096)
    card = on(plan(wanted, smollm2()), 0, "weights")
    cpu = plan(replace(wanted, devices=(PlannedDevice("cpu", None),), device_kind="cpu"), smollm2())
    assert card == on(cpu, 0, "weights") == 92.10
    assert [mib(line.bytes) for line in plan(wanted, smollm2()).host if line.name == "weights"] == [28.69]


def test_weights_that_are_not_at_hand_leave_fit_open() -> None:
    planned = plan(request(), dense(4, kv_heads=2, head_dim=64))
    assert planned.fits is None
    assert planned.bytes_by_device is None
    assert slots(request(), dense(4, kv_heads=2, head_dim=64)).bytes_per_token == 4 * 2 * 128 * 2


@pytest.mark.parametrize(
    "facts",
    [
        replace(smollm2(), family="falcon-h1"),
        replace(smollm2(), family="rwkv7", layers=(Layer("recurrent"),) * 30),
    ],
)
def test_a_state_that_is_not_modelled_leaves_the_plan_incomplete(facts: ModelFacts) -> None:
    planned = plan(request(), facts)
    assert planned.bytes_by_device is None
    assert f"the recurrent state of {facts.family} is not modelled" in planned.notes


def test_a_vocabulary_that_is_not_told_makes_no_output_buffer_of_nothing() -> None:
    known = {line.name for line in plan(request(), qwen27b_gguf()).host}
    unknown = {line.name for line in plan(request(), replace(qwen27b_gguf(), vocab=None)).host}
    assert known - unknown == {"output buffer"}


def test_an_encoder_s_mask_is_as_large_as_its_batch() -> None:
    nothing = replace(smollm2(), layers=(Layer("none"),) * 30)
    assert mib(slots(request(context=8192), nothing).bytes) == 0
    for context in (512, 8192):
        assert on(plan(request(context=context), nothing), 0, "compute") == on(
            plan(request(context=512), nothing), 0, "compute"
        )


def test_the_cache_of_an_indexer_is_not_made_up() -> None:
    planned = plan(request(), replace(qwen27b_gguf(), family="qwen4exp"))
    assert "the indexer's cache of qwen4exp is not modelled" in planned.notes
    assert not planned.complete


def test_half_a_pair_of_cache_types_is_refused() -> None:
    with pytest.raises(ValueError, match="is no llama"):
        plan(request(kv="q8_0,"), qwen27b_gguf())
