"""vLLM's block arithmetic against the published readings, to the byte and the token."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gearshift.artifacts.facts import Layer, ModelFacts, MtpFacts, Recurrent
from gearshift.domain.variant import Speculation
from gearshift.planner.calibration import Calibration
from gearshift.planner.ledger import PagedKv, Plan
from gearshift.planner.planning import plan
from gearshift.planner.request import PlannedDevice, PlanRequest
from gearshift.planner.vllm_blocks import BlockLayout
from gearshift.planner.vllm_start import resolve
from planner.models import GIB, dense, gpt_oss20b, qwen06b, qwen27b, qwen35b, qwen235b, smollm2

VERSIONS = tuple(f"0.{minor}.0" for minor in range(22, 34))
WINDOW = 262_144


def request(  # the knobs of the published readings
    version: str | None,
    *,
    kv: str | None = "fp8",
    drafted: int = 0,
    caching: bool = True,
    ranks: int = 1,
    pool: int | None = None,
    context: int | None = WINDOW,
    sequences: int | None = 1,
    batched: int = 2048,
    cpu: bool = False,
) -> PlanRequest:
    return PlanRequest(
        engine="vllm",
        devices=tuple(PlannedDevice(f"gpu{rank}", None) for rank in range(ranks)),
        version=version,
        device_kind="cpu" if cpu else "cuda",
        context=context,
        kv_dtype=kv,
        kv_bytes=pool,
        parallel=sequences,
        max_num_batched_tokens=batched,
        prefix_caching=caching,
        speculation=Speculation("mtp", drafted) if drafted else None,
    )


def layout(wanted: PlanRequest, facts: ModelFacts) -> BlockLayout:
    return resolve(wanted, facts).layout


def figures(planned: Plan) -> PagedKv:
    assert isinstance(planned.kv, PagedKv)
    return planned.kv


@pytest.mark.parametrize(
    ("kv", "drafted", "block", "padding"),
    [
        ("fp8", 0, 1568, 0.13),
        ("fp8", 1, 1584, 0.51),
        ("fp8", 2, 1600, None),
        ("fp8", 3, 1600, None),
        ("auto", 0, 784, None),
        ("auto", 1, 800, None),
        ("auto", 3, 800, None),
    ],
)
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_hybrids_block_holds_its_state_at_any_rank_count(
    kv: str, drafted: int, block: int, padding: float | None, ranks: int
) -> None:
    found = layout(request("0.27.1", kv=kv, drafted=drafted, ranks=ranks), qwen27b())
    assert found.block_size == block
    assert found.padding_percent is not None
    assert padding is None or round(found.padding_percent, 2) == padding


def test_a_draft_head_joins_the_attention_group() -> None:
    without, with_mtp = (layout(request("0.27.1", drafted=drafted), qwen27b()) for drafted in (0, 1))
    assert (without.group_size, without.full_groups, without.state_groups) == (16, 1, 3)
    assert (with_mtp.group_size, with_mtp.full_groups, with_mtp.state_groups) == (17, 1, 3)


@pytest.mark.parametrize(
    ("kv", "mode", "minimum"),
    [
        ("fp8", "align", (8_991_539_200, 9_706_143_744, 9_859_891_200, 10_027_008_000)),
        ("fp8", "none", (8_837_398_528, 9_540_698_112, 9_692_774_400, 9_859_891_200)),
        ("auto", "align", (17_572_036_608, 18_828_492_800, 18_995_609_600, 19_162_726_400)),
        ("auto", "none", (17_417_895_936, 18_661_376_000, 18_828_492_800, 18_995_609_600)),
    ],
)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("ranks", [1, 2])
def test_the_smallest_pool_for_the_whole_window(
    version: str,
    kv: str,
    mode: str,
    minimum: tuple[int, ...],
    ranks: int,
) -> None:
    for drafted, expected in enumerate(minimum):
        wanted = request(version, kv=kv, drafted=drafted, caching=mode == "align", ranks=ranks)
        kept = figures(plan(wanted, qwen27b()))
        assert kept.recommended_bytes == expected // ranks
        null = 0 if version < "0.29" else kept.bytes_per_block
        assert kept.min_bytes == kept.recommended_bytes - kept.bytes_per_block + null


def test_r1_01_a_pool_288_tokens_short_is_refused_with_the_engines_figures() -> None:
    planned = plan(request("0.27.1", pool=8_939_000_000, sequences=3, batched=512), qwen27b())
    assert planned.fits is False
    assert figures(planned).max_context == 261_856
    assert figures(planned).min_bytes == 8_940_158_976
    assert figures(planned).blocks == 173
    (reason,) = planned.refusals
    assert "one request of 262144 tokens needs 8.33 GiB" in reason
    assert "8.33 GiB available" in reason
    assert "288 tokens, or 1,158,976 bytes, short" in reason
    assert "set kv_bytes to 8991539200, or set context to 261856" in reason


def test_a_pool_that_takes_what_is_left_is_not_told_to_be_pinned_larger_than_the_card() -> None:
    weights = replace(qwen27b(), stated_bytes=20 * GIB)
    planned = plan(replace(request("0.27.1", sequences=3), devices=(PlannedDevice("gpu0", 24 * GIB),)), weights)
    (reason,) = planned.refusals
    assert "kv_bytes" not in reason
    assert f"leave the pool more of the device, or set context to {figures(planned).max_context}" in reason


def test_a_stated_size_makes_a_whole_plan_of_a_config_alone_and_is_never_exact() -> None:
    wanted = replace(request("0.27.1", pool=9_150_000_000, sequences=3), devices=(PlannedDevice("gpu0", 32 * GIB),))
    planned = plan(wanted, replace(qwen27b(), stated_bytes=20 * GIB))
    (weights,) = (line for line in planned.ledger[0].lines if line.name == "weights")
    assert (weights.bytes, weights.kind, weights.error_bytes) == (20 * GIB, "modelled", GIB)
    assert planned.fits is True


def test_r1_02_and_03_the_final_pool_prints_its_tokens_and_concurrency() -> None:
    kv = figures(plan(request("0.27.1", pool=9_150_000_000, sequences=3, batched=512), qwen27b()))
    assert (kv.tokens, round(kv.concurrency or 0, 2)) == (268_170, 1.02)
    assert (kv.blocks, kv.blocks_per_request) == (178, 174)


@pytest.mark.parametrize(("drafted", "stated", "minimum"), [(1, 9.75e9, 9_650_995_200), (3, 1.005e10, 9_971_302_400)])
def test_r1_04_and_05_what_a_draft_head_adds_to_the_pool(drafted: int, stated: float, minimum: int) -> None:
    kv = figures(plan(request("0.27.1", drafted=drafted), qwen27b()))
    assert kv.min_bytes == minimum
    assert kv.recommended_bytes <= stated < kv.recommended_bytes * 1.005  # a search in steps of 0.05e9


def test_the_null_block_shortens_the_same_pool_from_0_29_on() -> None:
    lengths = [figures(plan(request(v, pool=8_939_000_000), qwen27b())).max_context for v in ("0.28.0", "0.29.0")]
    assert lengths == [261_856, 260_288]


GB10, A3B = int(48.6 * GIB), (int(5.98 * GIB), int(6.01 * GIB))
READINGS = [
    ("0.23.1", qwen27b(), {"drafted": 2, "pool": GB10}, 936, 176, 1_394_129, 5.32),
    ("0.24.0", qwen35b(), {"pool": A3B[0], "context": 131_072}, 299, 69, 567_978, 4.33),
    ("0.24.0", qwen35b(), {"pool": A3B[1], "context": 131_072}, 300, 69, 569_878, 4.35),
    ("0.24.0", qwen27b(), {"drafted": 3, "ranks": 2, "pool": int(5.33 * GIB)}, 205, 179, 300_220, 1.15),
    ("0.22.0", qwen27b(), {"kv": "fp8_e5m2", "ranks": 2, "pool": int(9.84 * GIB)}, 411, 174, 619_202, 2.36),
    ("0.27.1", qwen235b(), {"kv": None, "ranks": 4, "pool": int(27.85 * GIB), "context": 32_768},
     38_837, 2_048, 621_392, 18.96),
    ("0.25.1", qwen27b(), {"caching": False, "pool": 40_000_000_000}, 778, 171, 1_192_678, 4.55),
    ("0.32.0", smollm2(), {"kv": None, "pool": GIB, "context": 4096, "cpu": True}, 364, 32, 46_592, 11.38),
]  # fmt: skip


@pytest.mark.parametrize(("version", "facts", "knobs", "blocks", "per_request", "tokens", "concurrency"), READINGS)
def test_public_start_up_logs_are_reproduced(
    version: str,
    facts: ModelFacts,
    knobs: dict[str, int],
    blocks: int,
    per_request: int,
    tokens: int,
    concurrency: float,
) -> None:
    kv = figures(plan(request(version, **knobs), facts))  # type: ignore[arg-type]  # knobs differ in type by name
    # a pool read from a log is rounded to 0.01 GiB, which is less than one block of every model here but the 235B's
    pool_step = -(-GIB // 100 // kv.bytes_per_block)
    assert abs((kv.blocks or 0) - blocks) <= (0 if knobs["pool"] in {GIB, 40_000_000_000} else pool_step)
    assert kv.blocks_per_request == per_request
    exact = figures(plan(request(version, **{**knobs, "pool": blocks * kv.bytes_per_block}), facts))  # type: ignore[arg-type]  # as above
    assert (exact.blocks, exact.tokens, round(exact.concurrency or 0, 2)) == (blocks, tokens, concurrency)
    assert exact.exact


@pytest.mark.parametrize(("pool", "length"), [(3.01, 172_032), (3.405, 196_608)])  # logged as 3.41
def test_a_packed_cache_is_fitted_to_its_pool(pool: float, length: int) -> None:
    wanted = request("0.28.0", kv="turboquant_4bit_nc", pool=int(pool * GIB))
    kv = figures(plan(wanted, qwen27b()))
    assert kv.block_size == 3072
    assert round(layout(wanted, qwen27b()).padding_percent or 0, 2) == 0.38
    assert kv.max_context == length


def test_a_refused_dense_model_on_a_cpu_gives_the_engines_figures() -> None:
    planned = plan(request("0.28.0", kv=None, pool=GIB, context=40_960, cpu=True), qwen06b())
    assert figures(planned).max_context == 9_344
    assert "4.38 GiB" in planned.refusals[0]
    assert "context to 9344" in planned.refusals[0]


def test_the_35b_block_is_larger_than_the_27bs() -> None:
    assert layout(request("0.24.0"), qwen35b()).block_size == 2096


def test_a_tiny_hybrid_with_a_draft_head_on_a_cpu_meets_our_own_log() -> None:
    """Own run of 0.32.0: block 1152, padding 7.46 %, 829,440 tokens, 202.50x, prefix caching off."""
    attention = Layer("full", 2, 64, 64)
    facts = replace(
        qwen27b(),
        layers=(Layer("recurrent"), Layer("recurrent"), Layer("recurrent"), attention) * 2,
        mtp_layers=(attention,),
        heads=8,
        recurrent=Recurrent(4, 2 * 4 * 128 + 8 * 128, 8 * 128 * 128, "float32"),
    )
    wanted = request("0.32.0", kv=None, drafted=3, caching=False, context=4096, cpu=True, pool=int(4.0051 * GIB))
    found = layout(wanted, facts)
    assert (found.block_size, round(found.padding_percent or 0, 2)) == (1152, 7.46)
    kv = figures(plan(wanted, facts))
    assert (kv.blocks, kv.tokens, kv.concurrency) == (2430, 829_440, 202.5)


def test_sliding_layers_hold_their_window_and_what_is_in_flight() -> None:
    found = layout(request("0.25.0", kv=None, batched=2048, context=131_072), gpt_oss20b())
    assert (found.full_groups, found.sliding_groups, found.block_size) == (1, 1, 16)
    assert found.blocks_for(131_072) == 8192 + -(-(127 + 2048) // 16) + 1


def test_scheduling_ahead_doubles_what_is_in_flight_from_0_26_on() -> None:
    assert [layout(request(v, kv=None), gpt_oss20b()).in_flight for v in ("0.25.0", "0.26.0")] == [2048, 4096]


@pytest.mark.parametrize(("version", "mode"), [("0.27.1", "none"), ("0.28.0", "align")])
def test_hybrids_cache_prefixes_by_default_from_0_28_on(version: str, mode: str) -> None:
    wanted = PlanRequest("vllm", (PlannedDevice("gpu", None),), version=version)
    assert layout(wanted, qwen27b()).state_mode == mode


def test_a_hybrids_prefixes_hit_in_whole_blocks() -> None:
    def told(version: str, *, caching: bool) -> list[str]:
        planned = plan(request(version, pool=10**10, caching=caching), qwen27b())
        return [note for note in planned.notes if "prefix" in note]

    whole = ["the prefix cache hits in whole blocks of 1568 tokens; a shorter prompt never hits"]
    assert told("0.27.1", caching=True) == told("0.30.0", caching=True) == whole
    assert told("0.30.0", caching=False) == []


@pytest.mark.parametrize("version", ["0.22.1", "0.26.0"])
def test_up_to_0_26_align_mode_refuses_a_block_larger_than_the_batch(version: str) -> None:
    planned = plan(request(version, pool=10**10, batched=512), qwen27b())
    assert any("block_size (1568) must be <= max_num_batched_tokens (512)" in reason for reason in planned.refusals)
    assert not plan(request("0.27.0", pool=10**10, batched=512), qwen27b()).refusals


def test_more_sequences_than_state_blocks_are_refused_where_graphs_are_captured() -> None:
    planned = plan(request("0.30.0", pool=10**10, sequences=1024), qwen27b())
    assert any("max_num_seqs (1024) exceeds available Mamba cache blocks (194)" in text for text in planned.refusals)


def test_the_removed_cache_mode_is_refused_and_the_old_one_only_modelled() -> None:
    wanted = PlanRequest("vllm", (PlannedDevice("g", None),), cache_mode="all", prefix_caching=True, context=WINDOW)
    new, old = (plan(replace(wanted, version=version), qwen27b()) for version in ("0.32.0", "0.31.0"))
    assert "the mamba cache mode all was removed in 0.32" in new.refusals
    assert not figures(old).exact


@pytest.mark.parametrize(
    ("facts", "kv", "words"),
    [
        (dense(4, kv_heads=2, head_dim=64), "nvfp4", "no log has confirmed"),
        (dense(4, kv_heads=2, head_dim=64), "octave_4", "no formula is known"),
    ],
)
def test_what_is_not_proven_says_so(facts: ModelFacts, kv: str, words: str) -> None:
    planned = plan(request("0.32.0", kv=kv, context=4096), facts)
    assert not figures(planned).exact
    assert any(words in note for note in planned.notes)


def test_mamba_models_are_modelled_and_took_the_mode_all_up_to_0_27() -> None:
    facts = replace(qwen27b(), recurrent=Recurrent(4, 10_240, 786_432, "float32", "mamba"))
    modes = {version: layout(request(version), facts) for version in ("0.27.1", "0.28.0")}
    assert [found.state_mode for found in modes.values()] == ["all", "align"]
    assert not any(found.exact for found in modes.values())


def test_a_draft_head_the_model_does_not_have_is_refused_and_a_lost_one_is_noted() -> None:
    asked = request("0.30.0", kv=None, drafted=2, context=4096)
    assert "MTP was asked for, but the model's config names no MTP layers" in plan(asked, qwen06b()).refusals
    lost = replace(qwen27b(), mtp=MtpFacts(1, complete=False, missing=("mtp.fc.weight",)))
    planned = plan(asked, lost)
    assert planned.refusals == ()
    assert any("mtp.fc.weight" in note and "noise" in note for note in planned.notes)


def test_a_layer_type_nobody_knows_makes_the_layout_inexact() -> None:
    odd = replace(dense(4, kv_heads=2, head_dim=64), unknown_kinds=("hyena",))
    planned = plan(request("0.32.0", context=4096), odd)
    assert not figures(planned).exact
    assert planned.notes == ("layers of type hyena are not known: they are counted as full attention",)


def test_an_earlier_log_settles_a_layout_no_formula_covers() -> None:
    measured = Calibration(block_size=512, bytes_per_block=1_000_000)
    wanted = PlanRequest(
        "vllm", (PlannedDevice("g", None),), version="0.32.0", kv_dtype="octave_4", context=4096, kv_bytes=10**8,
        calibration=measured,
    )  # fmt: skip
    kv = figures(plan(wanted, dense(4, kv_heads=2, head_dim=64)))
    assert (kv.block_size, kv.bytes_per_block, kv.blocks) == (512, 1_000_000, 100)


def test_a_context_beyond_the_model_s_own_is_refused() -> None:
    beyond, within = (plan(request("0.32.0", context=length), qwen27b()).refusals for length in (WINDOW + 1, WINDOW))
    assert any("262,145 is more than the 262,144 tokens that the model's config allows" in reason for reason in beyond)
    assert not any("config allows" in reason for reason in within)


def test_full_layers_of_different_shapes_share_one_group_of_whole_pages() -> None:
    facts = replace(qwen06b(), layers=(Layer("full", 8, 128, 128), Layer("full", 2, 128, 128)) * 3)
    found = layout(request("0.32.0", kv=None, context=4096), facts)
    assert found.exact
    assert found.bytes_per_block == 16 * 3 * (8 + 2) * 256 * 2


@pytest.mark.parametrize(
    ("ranks", "words"),
    [(3, "4 key and value heads"), (6, "4 key and value heads"), (5, "24 attention heads"), (4, None), (8, None)],
)
def test_tensor_parallel_must_divide_every_kind_of_head(ranks: int, words: str | None) -> None:
    reasons = plan(request("0.32.0", ranks=ranks), qwen27b()).refusals
    assert reasons == (() if words is None else (f"tensor parallel size {ranks} does not divide {words}",))


def test_tensor_parallel_must_divide_linear_heads_too() -> None:
    facts = qwen27b()
    assert facts.recurrent is not None
    odd = replace(facts, recurrent=replace(facts.recurrent, heads=(15, 45)))
    assert plan(request("0.32.0", ranks=2), odd).refusals == (
        "tensor parallel size 2 does not divide 15 linear attention heads",
    )


def test_more_sequences_than_tokens_of_a_batch_are_refused_where_they_are_asked_for() -> None:
    facts = dense(4, kv_heads=2, head_dim=64)
    (reason,) = plan(request("0.32.0", context=4096, sequences=256, batched=128), facts).refusals
    assert reason == "max_num_batched_tokens (128) must be greater than or equal to max_num_seqs (256)"
    assert plan(request("0.32.0", context=4096, sequences=None, batched=128), facts).refusals == ()


def test_a_cache_type_that_came_later_is_refused_and_an_unknown_one_is_an_error() -> None:
    facts = dense(4, kv_heads=2, head_dim=64)
    (reason,) = plan(request("0.26.0", kv="int4_per_token_head", context=4096), facts).refusals
    assert reason == "vLLM 0.26.0 has no cache type int4_per_token_head: it came with 0.27"
    assert plan(request("0.27.1", kv="int4_per_token_head", context=4096), facts).refusals == ()
    with pytest.raises(ValueError, match="'q8_0' is no vLLM cache type"):
        plan(request("0.32.0", kv="q8_0", context=4096), facts)


def test_a_draft_model_s_layers_draw_on_the_same_pool() -> None:
    """A real start of 0.32.0 on a CPU, with SmolLM2-135M and a drafter of 4 layers of 2 heads of 64."""
    facts, small = smollm2(), dense(4, kv_heads=2, head_dim=64)
    alone = request("0.32.0", kv=None, context=4096, cpu=True, pool=GIB)
    drafting = replace(alone, speculation=Speculation("draft", 3, "small"), draft=replace(small, vocab=facts.vocab))
    both = figures(plan(drafting, facts))
    assert (both.tokens, round(both.concurrency or 0, 2), both.exact) == (42_752, 10.44, True)
    hybrid = plan(replace(drafting, draft=replace(small, vocab=qwen27b().vocab)), qwen27b())
    assert "the draft model's layers are counted like the target's, no log has confirmed it" in hybrid.notes
    unknown = replace(drafting, draft=None)
    assert "the layers of a draft drafter are not in the block arithmetic" in plan(unknown, facts).notes


@pytest.mark.parametrize(("version", "note"), [("0.1.dev20058+g1f", True), ("0.33.2", False)])
def test_a_development_build_gets_the_newest_rules_with_a_word_on_it(version: str, note: bool) -> None:  # noqa: FBT001
    found, newest = (plan(request(name, pool=10**10), qwen27b()) for name in (version, None))
    assert replace(figures(found), exact=True) == replace(figures(newest), exact=True)
    assert (f"vLLM {version} is outside 0.22 to 0.33" in found.notes) is note


def test_a_pool_larger_than_the_host_s_memory_is_refused() -> None:
    wanted = replace(request("0.32.0", cpu=True, pool=40 * GIB), devices=(PlannedDevice("cpu", 16 * GIB),))
    (reason,) = plan(wanted, qwen27b()).refusals
    assert reason == "a pool of 40.00 GiB is more than the 16.00 GiB of host memory: lower kv_bytes"


def test_tensor_parallel_must_divide_the_heads() -> None:
    planned = plan(request("0.27.1", ranks=5, pool=10**10), qwen27b())
    assert "tensor parallel size 5 does not divide 24 attention heads" in planned.refusals
