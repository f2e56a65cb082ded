"""From a configured variant to bytes by device: what control asks before two variants share a box."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.artifacts.facts import ModelFacts, TensorGroup
from gearshift.domain.device import Device
from gearshift.domain.variant import ArgValue, EngineKind, EngineRef, Speculation, Variant
from gearshift.planner.answers import longest_context
from gearshift.planner.calibration import Calibration
from gearshift.planner.ledger import OTHERS, PagedKv, Plan, SlotKv, with_others
from gearshift.planner.planning import plan, plan_variant
from gearshift.planner.request import PlannedDevice, PlanRequest
from gearshift.planner.variant_request import planned_devices, request_for
from gearshift.planner.workload import workload_of
from planner.models import GIB, MIB, dense, qwen27b, qwen27b_gguf, smollm2

CPU = Device("cpu", None, "host", 16 * GIB)
GPUS = tuple(Device(f"GPU-{name}", index, "RTX 3090", 24 * GIB) for index, name in enumerate("ab"))


OUTSIDE = 1.15 * GIB  # graphs, CUDA context and NCCL of two ranks, which the engine's share does not count


def variant(engine: EngineKind, args: Mapping[str, ArgValue] | None = None, **fields: object) -> Variant:
    plain = Variant("m", "v", EngineRef(engine), weights="/models/m", args=args or {})
    return replace(plain, **fields)  # type: ignore[arg-type]  # fields differ in type by name


def with_weights(facts: ModelFacts, size: int) -> ModelFacts:
    return replace(facts, tensors=(TensorGroup("body", "BF16", 1, size, size // 2),))


def test_llama_cpp_on_the_cpu_is_planned_in_full() -> None:
    planned = plan_variant(variant("llama.cpp", context=4096, parallel=1), smollm2(), [CPU], engine_version="11434")
    assert planned.bytes_by_device is not None
    assert planned.bytes_by_device["cpu"] == pytest.approx(250 * MIB, rel=0.1)
    assert planned.fits is True
    assert planned.kv_bytes == 90 * MIB


def test_vllm_on_the_cpu_pins_the_pool_of_its_environment() -> None:
    small = with_weights(dense(30, kv_heads=3, head_dim=64, hidden=576, heads=9, context=8192), 270_000_000)
    wanted = variant("vllm", context=4096, env={"VLLM_CPU_KVCACHE_SPACE": "2"})
    planned = plan_variant(wanted, small, [CPU], engine_version="0.32.0")
    assert planned.kv_bytes == 2 * GIB
    assert planned.fits is True


def test_vllm_on_the_cpu_meets_a_measured_start() -> None:
    """Own run of 0.32.0, eager, a 135M model and a pool of 1 GiB: 3.26 GiB resident over all its processes."""
    weights = with_weights(dense(30, kv_heads=3, head_dim=64, hidden=576, heads=9, context=8192), 269_000_000)
    planned = plan_variant(variant("vllm", context=4096, kv_bytes=GIB), weights, [CPU], engine_version="0.32.0")
    (ledger,) = planned.ledger
    assert abs(ledger.planned_bytes - 3.26 * GIB) <= ledger.error_bytes
    assert ledger.planned_bytes == pytest.approx(3.26 * GIB, rel=0.03)


def test_vllm_on_the_cpu_is_bounded_to_a_gibibyte_without_a_size() -> None:
    planned = plan_variant(variant("vllm", context=4096), smollm2(), [CPU], engine_version="0.32.0")
    assert planned.kv_bytes == GIB


def test_an_automatic_pool_holds_one_full_request_and_a_block_more() -> None:
    wanted = variant(
        "vllm", {"enable-prefix-caching": None}, context=262_144, kv_dtype="fp8", parallel=3, kv_bytes="auto"
    )
    planned = plan_variant(wanted, with_weights(qwen27b(), 18 * GIB), GPUS[:1], engine_version="0.27.1")
    assert planned.kv_bytes == 8_991_539_200
    assert planned.refusals == ()
    assert isinstance(planned.kv, PagedKv)
    assert planned.kv.max_context == 262_144


def test_an_automatic_pool_never_has_fewer_blocks_than_sequences() -> None:
    wanted = variant("vllm", context=4096, kv_dtype="fp8", kv_bytes="auto", parallel=64)
    planned = plan_variant(wanted, qwen27b(), GPUS[:1], engine_version="0.30.0")
    assert planned.kv_bytes == 64 * 51_380_224
    assert planned.refusals == ()


def test_an_unpinned_vllm_takes_its_share_of_each_card() -> None:
    wanted = variant("vllm", {"gpu-memory-utilization": 0.9}, context=8192, kv_dtype="fp8", parallel=8)
    planned = plan_variant(wanted, with_weights(qwen27b(), 28 * GIB), GPUS, engine_version="0.27.1")
    assert planned.bytes_by_device == pytest.approx({gpu.id: 0.9 * 24 * GIB + OUTSIDE for gpu in GPUS}, rel=1e-6)
    assert planned.fits is True


@pytest.mark.parametrize(
    ("wanted", "facts"),
    [
        (variant("vllm", context=8192), None),
        (variant("command"), smollm2()),
        (variant("llama.cpp"), dense(2, kv_heads=1, head_dim=64)),
        (variant("vllm", context=8192), qwen27b()),
    ],
)
def test_what_is_not_known_is_not_guessed(wanted: Variant, facts: ModelFacts | None) -> None:
    planned = plan_variant(wanted, facts, GPUS, engine_version=None)
    assert planned.bytes_by_device is None
    assert planned.fits is None


@pytest.mark.parametrize("memory", [9 * GIB, {"GPU-a": 9 * GIB, "GPU-b": 9 * GIB}, {"0": 9 * GIB, "1": 9 * GIB}])
def test_declared_memory_wins_over_every_model(memory: Mapping[str, int] | int) -> None:
    planned = plan_variant(variant("command", memory=memory), smollm2(), GPUS, engine_version=None)
    assert planned.bytes_by_device == {"GPU-a": 9 * GIB, "GPU-b": 9 * GIB}
    assert planned.fits is True


def test_a_cache_type_the_engine_lacks_is_a_refusal() -> None:
    planned = plan_variant(variant("llama.cpp", kv_dtype="fp8"), smollm2(), [CPU], engine_version=None)
    assert planned.fits is False
    assert "'fp8' is no llama.cpp cache type" in planned.refusals[0]


def test_the_devices_are_those_the_variant_names_in_its_order() -> None:
    both = (*GPUS, CPU)
    assert [device.id for device in planned_devices(variant("vllm", gpus=(1, "GPU-a")), both)] == ["GPU-b", "GPU-a"]
    assert [device.id for device in planned_devices(variant("vllm"), both)] == ["GPU-a", "GPU-b"]
    assert planned_devices(variant("vllm"), [CPU]) == (CPU,)


def test_flags_win_over_the_neutral_fields() -> None:
    args: dict[str, ArgValue] = {
        "max-model-len": "32k",
        "kv-cache-dtype": "fp8_e5m2",
        "kv-cache-memory-bytes": "4GiB",
        "max-num-seqs": 7,
        "enable-prefix-caching": False,
        "enforce-eager": None,
        "speculative-config": '{"method":"qwen3_5_mtp","num_speculative_tokens":2}',
    }
    found = request_for(variant("vllm", args, context=1000, kv_dtype="fp8", parallel=2), GPUS, engine_version="0.30.0")
    assert (found.context, found.kv_dtype, found.kv_bytes, found.parallel) == (32_000, "fp8_e5m2", 4 * GIB, 7)
    assert (found.prefix_caching, found.eager, found.drafted, found.built_in_draft) == (False, True, 2, True)


def test_llama_cpp_flags_are_read_by_any_of_their_names() -> None:
    args: dict[str, ArgValue] = {
        "ctx-size": 16_384,
        "split-mode": "tensor",
        "tensor-split": "3,1",
        "ubatch-size": 1024,
        "cache-type-v": "q4_0",
        "spec-type": "ngram-mod,draft-mtp",
        "spec-draft-n-max": 4,
    }
    found = request_for(variant("llama.cpp", args, kv_dtype="q8_0", parallel=2), GPUS, engine_version=None)
    assert (found.context, found.split, found.shares, found.ubatch) == (16_384, "tensor", (3.0, 1.0), 1024)
    assert (found.kv_dtype, found.draft_kv_dtype) == ("q8_0,q4_0", "q8_0,q8_0")
    assert (found.drafted, found.built_in_draft, found.unified_kv) == (4, True, True)


def test_a_model_spread_over_a_pipeline_is_not_planned() -> None:
    wanted = variant("vllm", {"pipeline-parallel-size": 2}, context=8192, parallel=8)
    planned = plan_variant(wanted, with_weights(qwen27b(), 18 * GIB), GPUS, engine_version="0.30.0")
    assert planned.bytes_by_device is None
    assert any("--pipeline-parallel-size" in note for note in planned.notes)


def test_tensor_parallel_uses_only_so_many_devices() -> None:
    found = request_for(variant("vllm", {"tensor-parallel-size": 1}), GPUS, engine_version=None)
    assert [device.id for device in found.devices] == ["GPU-a"]


def test_without_a_context_llama_cpp_fits_one_to_the_card() -> None:
    facts = with_weights(qwen27b_gguf(), 0)
    facts = replace(facts, layer_bytes=(280 * MIB,) * 65, tensors=(TensorGroup("body", "Q4_K", 1, 64 * 280 * MIB, 1),))
    planned = plan_variant(variant("llama.cpp", parallel=1), facts, GPUS[:1], engine_version=None)
    assert isinstance(planned.kv, SlotKv)
    assert 4096 < planned.kv.cells < 262_144
    assert planned.bytes_by_device is not None
    assert planned.bytes_by_device["GPU-a"] <= 23 * GIB


def test_d5_a_context_of_0_is_the_whole_window_and_is_not_shortened_to_fit() -> None:
    """R3's Q6_K was listed with 131k of context, its recipe has -c 0: the model's 262,144."""
    facts = replace(
        qwen27b_gguf(), layer_bytes=(280 * MIB,) * 65, tensors=(TensorGroup("body", "Q4_K", 1, 64 * 280 * MIB, 1),)
    )
    asked, left = (
        plan_variant(variant("llama.cpp", args, parallel=1), facts, GPUS[:1], engine_version=None)
        for args in ({"ctx-size": 0}, {"ctx-size": "auto"})
    )
    assert isinstance(asked.kv, SlotKv)
    assert isinstance(left.kv, SlotKv)
    assert asked.kv.cells == 262_144 > left.kv.cells
    assert (asked.fits, left.fits) == (False, True)


DRAFTING = Speculation("draft", 4, draft="/models/small")


def test_a_draft_model_of_unknown_size_leaves_the_plan_incomplete() -> None:
    for engine in ("llama.cpp", "vllm"):
        wanted = variant(engine, context=4096, speculation=DRAFTING)
        assert plan_variant(wanted, smollm2(), [CPU], engine_version=None).bytes_by_device is None


@pytest.mark.parametrize("engine", ["llama.cpp", "vllm"])
def test_a_draft_model_that_is_not_here_is_named_and_leaves_no_figure_made_up(engine: EngineKind) -> None:
    wanted = variant(engine, context=4096, speculation=DRAFTING)
    planned = plan_variant(wanted, smollm2(), [CPU], engine_version=None)
    assert "the draft model /models/small is left out: it is not here" in planned.notes
    if isinstance(planned.kv, SlotKv):
        assert planned.kv.draft_bytes is None
    bare = plan_variant(wanted, smollm2(), [CPU], engine_version=None, draft=replace(smollm2(), tensors=()))
    assert "the draft model /models/small is left out: its weights are not here" in bare.notes
    assert (bare.fits, bare.bytes_by_device) == (None, None)
    request = PlanRequest(engine, (PlannedDevice("gpu0", 24 * GIB),), context=4096, speculation=DRAFTING)
    assert workload_of(request, smollm2()) is None
    assert longest_context(request, smollm2()) is None


def test_a_known_draft_model_brings_weights_and_a_context_of_its_own() -> None:
    wanted = variant("llama.cpp", context=4096, parallel=1, speculation=DRAFTING)
    planned = plan_variant(wanted, smollm2(), [CPU], engine_version=None, draft=smollm2())
    lines = {line.name: line.bytes for line in planned.ledger[0].lines}
    assert lines["draft weights"] == lines["weights"]
    assert lines["draft kv cache"] == lines["kv cache"] == 90 * MIB
    assert lines["draft compute"] == lines["compute"]
    assert isinstance(planned.kv, SlotKv)
    assert planned.kv.draft_bytes == 90 * MIB
    assert planned.bytes_by_device is not None


@pytest.mark.parametrize("engine", ["llama.cpp", "vllm"])
def test_of_weights_whose_files_are_partly_here_nothing_is_counted(engine: EngineKind) -> None:
    partly = replace(smollm2(), missing_files=("m-00002-of-00002.gguf",))
    wanted = PlanRequest(engine, (PlannedDevice("gpu0", 24 * GIB),), context=4096)
    planned = plan(wanted, partly)
    assert (planned.fits, planned.bytes_by_device) == (None, None)
    assert "weights" not in {line.name for line in planned.ledger[0].lines}
    assert (
        "files of the weights are not here (m-00002-of-00002.gguf): the model is broken without them" in planned.notes
    )


def test_an_unquantized_checkpoint_is_weighed_in_the_type_it_runs_in() -> None:
    stored = replace(smollm2(), tensors=(TensorGroup("body", "F32", 1, 400, 100),), dtype="float32")
    wanted = PlanRequest("vllm", (PlannedDevice("cpu", None),), device_kind="cpu", context=4096, kv_bytes=GIB)
    sizes = {
        dtype: next(line.bytes for line in plan(replace(wanted, dtype=dtype), stored).ledger[0].lines)
        for dtype in (None, "float32")
    }
    assert sizes == {None: 200, "float32": 400}


def test_measured_lines_replace_modelled_ones_and_never_exact_ones() -> None:
    seen = Calibration(lines={"cpu": {"process": 7 * MIB, "kv cache": 1, "surprise": 3 * MIB}})
    planned = plan_variant(
        variant("llama.cpp", context=4096, parallel=1), smollm2(), [CPU], engine_version=None, calibration=seen
    )
    lines = {line.name: line for line in planned.ledger[0].lines}
    assert (lines["process"].bytes, lines["process"].kind, lines["process"].error_bytes) == (7 * MIB, "measured", 0)
    assert (lines["kv cache"].bytes, lines["kv cache"].kind) == (90 * MIB, "exact")
    assert (lines["surprise"].bytes, lines["surprise"].kind) == (3 * MIB, "measured")


def test_what_a_start_held_beyond_its_ledger_is_a_measured_line() -> None:
    wanted = variant("llama.cpp", context=4096, parallel=1)
    plain = plan_variant(wanted, smollm2(), [CPU], engine_version=None)
    assert plain.bytes_by_device is not None
    seen = Calibration(totals={"cpu": plain.bytes_by_device["cpu"] + 100})
    assert plan_variant(wanted, smollm2(), [CPU], engine_version=None, calibration=seen).bytes_by_device == {
        "cpu": plain.bytes_by_device["cpu"] + 100
    }
    less = Calibration(totals={"cpu": 5})
    assert plan_variant(wanted, smollm2(), [CPU], engine_version=None, calibration=less) == plain


def r1(**knobs: object) -> PlanRequest:
    base = PlanRequest(
        engine="vllm",
        devices=(PlannedDevice("GPU-a", int(31.84 * GIB)),),
        version="0.27.1",
        context=262_144,
        kv_dtype="fp8",
        prefix_caching=True,
        parallel=3,
        max_num_batched_tokens=512,
    )
    return replace(base, **knobs)  # type: ignore[arg-type]  # knobs differ in type by name


R1_WEIGHTS = replace(
    qwen27b(),
    vision=False,
    tensors=(TensorGroup("body", "U8", 1, int(19.78 * GIB), 1), TensorGroup("mtp", "BF16", 1, int(0.79 * GIB), 1)),
)


def test_r1_fits_the_whole_window_on_one_card() -> None:
    assert plan(r1(kv_bytes=9_150_000_000), R1_WEIGHTS).fits is True


def test_r1_06_a_large_batch_with_a_draft_head_is_not_promised_to_fit() -> None:
    wanted = r1(kv_bytes=10_050_000_000, max_num_batched_tokens=8192, speculation=Speculation("mtp", 3))
    assert plan(wanted, R1_WEIGHTS).fits is not True


def test_a_desktop_is_a_line_of_its_own_and_not_the_variants() -> None:
    alone: Plan = plan(r1(kv_bytes=9_150_000_000), R1_WEIGHTS)
    shared = with_others(alone, {"GPU-a": 3 * GIB})
    assert [line.name for line in shared.ledger[0].lines][-1] == OTHERS
    assert shared.bytes_by_device == alone.bytes_by_device
    assert shared.fits is False


def test_the_start_up_gate_counts_what_others_hold() -> None:
    planned = plan(r1(kv_bytes=9_150_000_000, other_bytes={"GPU-a": 4 * GIB}), R1_WEIGHTS)
    assert any("is less than the share asked for (0.92, 29.29 GiB)" in reason for reason in planned.refusals)
    lowered = plan(r1(kv_bytes=9_150_000_000, other_bytes={"GPU-a": GIB}, memory_share=0.8), R1_WEIGHTS)
    assert not lowered.refusals


@pytest.mark.parametrize(
    ("total", "share", "ranks", "weights", "pools"),
    [
        (15.51, 0.92, 1, 10.24, (3.01, 3.41)),  # the same recipe, started twice
        (95.01, 0.90, 4, 55.19, (27.85,)),
    ],
)
def test_an_unpinned_pool_is_what_the_log_left_within_the_stated_error(
    total: float, share: float, ranks: int, weights: float, pools: tuple[float, ...]
) -> None:
    facts = replace(with_weights(qwen27b(), int(weights * ranks * GIB)), vision=False, heads=64)
    cards = tuple(PlannedDevice(f"GPU-{n}", int(total * GIB)) for n in range(ranks))
    wanted = PlanRequest("vllm", cards, version="0.28.0", memory_share=share, parallel=8, max_num_batched_tokens=2048)
    planned = plan(wanted, facts)
    pinned = plan(replace(wanted, kv_bytes=planned.kv_bytes), facts)
    error = sum(line.error_bytes for line in pinned.ledger[0].lines if line.name in {"libraries", "peak activation"})
    for pool in pools:
        assert abs((planned.kv_bytes or 0) - pool * GIB) <= error


FLAGS = st.sampled_from([
    "max-model-len", "kv-cache-dtype", "kv-cache-memory-bytes", "max-num-seqs", "max-num-batched-tokens", "block-size",
    "enable-prefix-caching", "gpu-memory-utilization", "speculative-config", "tensor-parallel-size", "mamba-cache-mode",
    "ctx-size", "parallel", "kv-unified", "split-mode", "tensor-split", "gpu-layers", "ubatch-size", "batch-size",
    "cache-type-k", "spec-type", "spec-draft-n-max", "swa-full", "dtype", "mamba-ssm-cache-dtype", "n-cpu-moe",
])  # fmt: skip
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 10**6)
    | st.floats(0, 10)
    | st.sampled_from(
        ["auto", "-1", "32k", "fp8", "q8_0", "tensor", "none", "0,0", "1,2", "draft-mtp", "{}", "[]", "x"]
    )
)
MODELS = st.sampled_from([
    smollm2(), qwen27b(), qwen27b_gguf(), with_weights(qwen27b(), GIB), replace(smollm2(), context_train=None),
    replace(smollm2(), layers=(), layer_bytes=()), replace(smollm2(), hidden=0, heads=0, ffn=None),
])  # fmt: skip


@given(
    engine=st.sampled_from(["vllm", "llama.cpp"]),
    args=st.dictionaries(FLAGS, SCALARS, max_size=6),
    facts=MODELS,
    devices=st.sampled_from([[CPU], list(GPUS), list(GPUS[:1])]),
    context=st.none() | st.integers(1, 10**6),
    automatic=st.booleans(),
)
def test_no_configuration_makes_planning_fail(
    engine: EngineKind,
    args: dict[str, ArgValue],
    facts: ModelFacts,
    devices: list[Device],
    context: int | None,
    automatic: bool,  # noqa: FBT001 - drawn by hypothesis
) -> None:
    wanted = variant(engine, args, context=context, kv_bytes="auto" if automatic else None)
    planned = plan_variant(wanted, facts, devices, engine_version="0.30.0")
    assert all(line.bytes >= 0 for ledger in planned.ledger for line in ledger.lines)
    assert planned.fits in {True, False, None}
