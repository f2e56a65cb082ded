"""The roofline against every published case and our own H200 recording; times in ms."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.artifacts.facts import Experts, TensorGroup
from gearshift.domain.device import Device
from gearshift.domain.units import GIB
from gearshift.planner.ceiling import (
    Ceiling,
    Hardware,
    Workload,
    cost_ratio,
    decode_ceiling,
    experts_touched,
    fitted_overhead,
    lone_verification_s,
)
from gearshift.planner.gpus import GPUS, card_of, find_gpu, parse_gpu
from gearshift.planner.request import PlannedDevice, PlanRequest
from gearshift.planner.workload import workload_of
from planner.models import qwen27b, smollm2
from planner.published import even, work

CARDS = {"3090": 936e9, "5090": 1792e9, "5060": 448e9, "h200": 4800e9}


class Case(NamedTuple):
    """One published case: the ideal step and its drafting part in ms, speeds in tok/s, the fraction in percent."""

    name: str
    recipe: str
    card: str
    cards: int
    kv: str
    depth: int
    drafted: int
    expected: float
    ideal: float
    draft: float
    tok_s: float
    measured: float
    percent: int


CASES = [
    Case("R1 short", "nvfp4-mixed", "5090", 1, "fp8", 500, 0, 1, 9.99, 0.0, 100.1, 77.0, 77),
    Case("R1 128K", "nvfp4-mixed", "5090", 1, "fp8", 131_072, 0, 1, 12.38, 0.0, 80.8, 64.7, 80),
    Case("R2 2k", "nvfp4-mixed", "5090", 1, "f16", 2_000, 0, 1, 10.06, 0.0, 99.4, 66, 66),
    Case("R2 60k", "nvfp4-mixed", "5090", 1, "f16", 60_000, 0, 1, 12.18, 0.0, 82.1, 57, 69),
    Case("R2 2k n3", "nvfp4-mixed", "5090", 1, "f16", 2_000, 3, 2.6, 12.95, 2.63, 200.7, 107, 53),
    Case("R2 60k n3", "nvfp4-mixed", "5090", 1, "f16", 60_000, 3, 2.6, 15.47, 3.03, 168.0, 46, 27),
    Case("R2 TP2 2k", "nvfp4-mixed", "5090", 2, "f16", 2_000, 0, 1, 5.03, 0.0, 198.8, 99, 50),
    Case("R2 TP2 2k n3", "nvfp4-mixed", "5090", 2, "f16", 2_000, 3, 2.6, 6.48, 1.32, 401.4, 105, 26),
    Case("R2 TP2 60k n3", "nvfp4-mixed", "5090", 2, "f16", 60_000, 3, 2.6, 7.74, 1.52, 336.1, 45, 13),
    Case("R3 8K", "int4", "3090", 2, "fp8", 8_000, 3, 3.33, 13.25, 4.58, 251.2, 80, 32),
    Case("R3 262K", "int4", "3090", 2, "fp8", 262_144, 3, 3.41, 18.54, 5.41, 184.0, 75, 41),
    Case("club-3090", "nvfp4-mixed", "5090", 1, "fp8", 1_000, 0, 1, 10.00, 0.0, 100.0, 71, 71),
    Case("syv-ai", "int4", "3090", 1, "fp8", 112_648, 3, 2.56, 30.86, 9.85, 83.0, 68.1, 82),
    Case("qwen38-mtp 3090", "UD-Q4_K_XL", "3090", 1, "q4_0", 500, 0, 1, 18.33, 0.0, 54.6, 43.9, 80),
    Case("qwen38-mtp 5090", "UD-Q4_K_XL", "5090", 1, "q4_0", 500, 0, 1, 9.57, 0.0, 104.4, 74.5, 71),
    Case("qwen38-mtp n4", "UD-Q4_K_XL", "5090", 1, "q4_0", 500, 4, 3.76, 13.23, 3.30, 284.3, 169.1, 59),
    Case("qwen38-mtp tensor", "UD-Q4_K_M", "5060", 2, "q4_0", 500, 0, 1, 17.54, 0.0, 57.0, 37.1, 65),
    Case("HilbertRaum n2", "UD-Q5_K_M", "3090", 1, "f16", 2_300, 2, 2.505, 24.18, 3.38, 103.4, 46.73, 45),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_published_case_is_reproduced(case: Case) -> None:
    bound = decode_ceiling(
        work(case.recipe, case.kv),
        Hardware(CARDS[case.card], cards=case.cards),
        depth=case.depth,
        acceptance=even(case.expected, case.drafted),
    )
    assert bound.step_s * 1e3 == pytest.approx(case.ideal, abs=0.011)
    assert bound.draft_s * 1e3 == pytest.approx(case.draft, abs=0.011)
    assert bound.tok_s == pytest.approx(case.tok_s, rel=0.003)
    assert bound.fraction_of(case.measured) * 100 == pytest.approx(case.percent, abs=0.6)


LADDER = [
    (8_000, 3.33, 13.25, 28.4, 80),
    (32_000, 3.36, 13.75, 26.2, 84),
    (64_000, 3.33, 14.42, 25.2, 84),
    (120_000, 2.91, 15.58, 26.6, 69),
    (180_000, 3.34, 16.83, 24.9, 80),
    (200_000, 3.39, 17.25, 26.2, 78),
    (262_144, 3.41, 18.54, 26.9, 75),
]


def rung(depth: int, expected: float) -> Ceiling:
    hardware = Hardware(CARDS["3090"], cards=2)
    return decode_ceiling(work("int4", "fp8"), hardware, depth=depth, acceptance=even(expected, 3))


@pytest.mark.parametrize(("depth", "expected", "ideal", "unexplained", "measured"), LADDER)
def test_r3_leaves_the_same_unexplained_time_at_every_depth(
    depth: int, expected: float, ideal: float, unexplained: float, measured: float
) -> None:
    bound = rung(depth, expected)
    assert bound.step_s * 1e3 == pytest.approx(ideal, abs=0.011)
    assert bound.unexplained_s(measured) * 1e3 == pytest.approx(unexplained, abs=0.3)


def test_one_constant_predicts_the_whole_ladder() -> None:
    bounds = [rung(depth, expected) for depth, expected, *_ in LADDER]
    measured = [speed for *_, speed in LADDER]
    overhead = fitted_overhead(bounds, measured)
    assert overhead * 1e3 == pytest.approx(26.3, abs=0.2)
    assert [bound.with_overhead(overhead) for bound in bounds] == pytest.approx(measured, rel=0.055)


H200_AT_DEPTH = [  # ideal and measured step, off and with three drafted tokens, in ms; percent of the ceiling
    (2_000, (5.68, 10.53, 54), (7.64, 14.30, 53)),
    (32_000, (5.89, 11.09, 53), (7.88, 14.94, 53)),
    (60_000, (6.08, 11.50, 53), (8.11, 15.44, 53)),
]


@pytest.mark.parametrize(("depth", "off", "on"), H200_AT_DEPTH)
def test_the_h200_recording_at_depth(depth: int, off: tuple[float, float, int], on: tuple[float, float, int]) -> None:
    for acceptance, (ideal, measured, percent) in (((), off), ((0.91, 0.80, 0.65), on)):
        bound = decode_ceiling(work("fp8", "fp8"), Hardware(CARDS["h200"]), depth=depth, acceptance=acceptance)
        assert bound.step_s * 1e3 == pytest.approx(ideal, abs=0.02)
        assert 100 * bound.fraction_of(bound.tokens_per_step / measured * 1e3) == pytest.approx(percent, abs=0.6)


@pytest.mark.parametrize(
    ("depth", "ideal", "measured"), [(2_000, 1.34, 1.36), (32_000, 1.34, 1.35), (60_000, 1.33, 1.34)]
)
def test_on_the_h200_drafts_cost_what_their_bytes_say(depth: int, ideal: float, measured: float) -> None:
    ratio = cost_ratio(work("fp8", "fp8"), Hardware(CARDS["h200"]), depth=depth, drafted=3)
    assert ratio == pytest.approx(ideal, abs=0.006)
    assert ratio == pytest.approx(measured, abs=0.03)


@pytest.mark.parametrize(
    ("card", "cards", "kv", "depths", "slope"),
    [
        ("5090", 1, "fp8", (500, 131_072), 0.0183),  # R1 measured 0.0189
        ("5090", 1, "f16", (2_000, 60_000), 0.0366),  # R2 measured 0.0412: its cache was no fp8
        ("5090", 2, "f16", (2_000, 60_000), 0.0183),  # measured 0.0387: the kernel does not halve it
        ("5060", 2, "q4_0", (4_096, 130_000), 0.0206),  # measured 0.1160: bound by dequantization
        ("h200", 1, "fp8", (2_000, 60_000), 0.0068),  # measured 0.0166
    ],
)
def test_the_cost_of_depth_tells_cache_type_and_kernel(
    card: str, cards: int, kv: str, depths: tuple[int, int], slope: float
) -> None:
    near, far = (
        decode_ceiling(work("nvfp4-mixed", kv), Hardware(CARDS[card], cards=cards), depth=depth).step_s
        for depth in depths
    )
    assert 1e6 * (far - near) / (depths[1] - depths[0]) == pytest.approx(slope, abs=0.0001)  # ms for 1,000 tokens


H200_BY_LOAD = [  # sequences; ideal and measured step in ms and percent of the ceiling, off and with three drafts
    (1, (5.67, 10.50, 54), (7.62, 14.8, 51)),
    (4, (5.87, 10.87, 54), None),
    (8, (6.14, 11.39, 54), (8.78, 22.4, 39)),
    (12, (6.41, 11.76, 54), None),
    (16, (6.68, 12.07, 55), (10.11, 21.7, 47)),
    (32, (7.75, 15.13, 51), (12.75, 29.5, 43)),
]


@pytest.mark.parametrize(("batch", "off", "on"), H200_BY_LOAD)
def test_the_h200_recording_with_more_sequences(
    batch: int, off: tuple[float, float, int], on: tuple[float, float, int] | None
) -> None:
    for acceptance, row in (((), off), ((0.9, 0.8, 0.65), on)):
        if row is None:
            continue
        ideal, measured, percent = row
        bound = decode_ceiling(
            work("fp8", "fp8"), Hardware(CARDS["h200"]), depth=256, batch=batch, acceptance=acceptance
        )
        assert bound.step_s * 1e3 == pytest.approx(ideal, rel=0.01)
        tok_s = batch * bound.tokens_per_step / measured * 1e3
        assert 100 * bound.fraction_of(tok_s) == pytest.approx(percent, abs=0.6)


@pytest.mark.parametrize(
    ("recipe", "card", "kv", "depth", "ratios"),
    [
        ("UD-Q4_K_XL", "5090", "q8_0", 2_000, (1.11, 1.20, 1.29, 1.38, 1.56)),
        ("UD-Q4_K_XL", "5090", "q8_0", 128_000, (1.11, 1.20, 1.28, 1.37, 1.54)),
        ("UD-Q4_K_M", "3090", "q4_0", 2_000, (1.12, 1.22, 1.32, 1.42, 1.61)),
        ("UD-Q4_K_M", "3090", "q4_0", 128_000, (1.12, 1.22, 1.31, 1.40, 1.59)),
        ("nvfp4-mixed", "5090", "fp8", 2_000, (1.10, 1.19, 1.29, 1.38, 1.58)),
        ("nvfp4-mixed", "5090", "fp8", 128_000, (1.09, 1.18, 1.27, 1.36, 1.54)),
        ("nvfp4-all", "5090", "fp8", 2_000, (1.21, 1.43, 1.64, 1.86, 2.28)),
        ("nvfp4-all", "5090", "fp8", 128_000, (1.18, 1.37, 1.55, 1.73, 2.10)),
    ],
)
def test_what_a_draft_must_earn(recipe: str, card: str, kv: str, depth: int, ratios: tuple[float, ...]) -> None:
    found = [
        cost_ratio(work(recipe, kv), Hardware(CARDS[card]), depth=depth, drafted=drafted) for drafted in (1, 2, 3, 4, 6)
    ]
    assert found == pytest.approx(ratios, abs=0.011)


def test_a_sixteen_bit_head_more_than_doubles_a_drafted_token() -> None:
    recipes = ("nvfp4-mixed", "nvfp4-all", "int4", "fp8")
    one = {recipe: decode_ceiling(work(recipe, "fp8"), Hardware(1e9), depth=0, acceptance=(1.0,)) for recipe in recipes}
    assert one["nvfp4-mixed"].draft_s == pytest.approx(1.56, abs=0.01)
    assert one["nvfp4-all"].draft_s == pytest.approx(3.39, abs=0.01)
    assert one["int4"].draft_s == pytest.approx(2.84, abs=0.01)
    assert one["fp8"].draft_s == pytest.approx(2.97, abs=0.01)


@pytest.mark.parametrize(("card", "one_token_ms"), [("3090", 0.72), ("4090", 0.31), ("5090", 0.24), ("H200", 0.05)])
def test_compute_binds_only_with_many_tokens_a_step(card: str, one_token_ms: float) -> None:
    gpu = find_gpu(f"NVIDIA GeForce RTX {card}" if card.isdigit() else card)
    assert gpu is not None
    hardware = Hardware(gpu.bandwidth, gpu.flops)
    single = decode_ceiling(work("int4", "fp8"), hardware, depth=100)
    assert (single.compute_s or 0) * 1e3 == pytest.approx(one_token_ms, abs=0.006)
    assert single.dominant == "weights"
    assert decode_ceiling(work("int4", "fp8"), hardware, depth=100, batch=512).dominant in {"compute", "state"}


def test_depth_makes_the_cache_the_dominant_term() -> None:
    model = work("int4", "f16")
    assert decode_ceiling(model, Hardware(1e12), depth=1_000).dominant == "weights"
    assert decode_ceiling(model, Hardware(1e12), depth=1_000_000).dominant == "kv"


def test_a_verify_step_of_a_mixture_reads_more_experts() -> None:
    assert experts_touched(256, 8, 1) == pytest.approx(8)
    model = Workload(body_bytes=20_000, head_bytes=0, routed_bytes=16_000, experts=256, experts_used=8)
    plain = decode_ceiling(model, Hardware(1.0), depth=0)
    verify = decode_ceiling(model, Hardware(1.0), depth=0, acceptance=(0.5, 0.5, 0.5))
    assert plain.weights_s == pytest.approx(4_000 + 500)
    assert verify.weights_s == pytest.approx(4_000 + 16_000 * experts_touched(256, 8, 4) / 256)


@given(
    depth=st.integers(0, 500_000),
    batch=st.integers(1, 64),
    acceptance=st.lists(st.floats(0, 1), max_size=6),
    cards=st.integers(1, 8),
)
def test_the_rate_the_shares_and_the_bounds_of_a_ceiling_agree(
    depth: int, batch: int, acceptance: list[float], cards: int
) -> None:
    model = work("nvfp4-mixed", "fp8")
    bound = decode_ceiling(
        model, Hardware(1e12, 1e14, cards), depth=depth, batch=batch, acceptance=sorted(acceptance, reverse=True)
    )
    assert bound.tok_s == pytest.approx(batch * bound.tokens_per_step / bound.step_s)
    assert sum(bound.shares().values()) == pytest.approx(1)
    deeper = decode_ceiling(model, Hardware(1e12, 1e14, cards), depth=depth + 1000, batch=batch, acceptance=acceptance)
    assert deeper.step_s >= bound.step_s
    assert bound.step_s >= (bound.compute_s or 0)


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("NVIDIA GeForce RTX 5090", "RTX 5090"),
        ("rtx 3090ti", "RTX 3090 Ti"),
        ("NVIDIA GeForce RTX 3090", "RTX 3090"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX PRO 6000"),
        ("NVIDIA H100 80GB HBM3", "H100 80GB"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA A100-SXM4-80GB", "A100 80GB"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA H200", "H200"),
    ],
)
def test_a_driver_name_finds_its_row(name: str, row: str) -> None:
    found = find_gpu(name)
    assert found is not None
    assert found.name == row


def test_a_better_version_of_a_known_card_is_not_taken_for_it() -> None:
    assert find_gpu("NVIDIA GeForce RTX 5080 SUPER") is None
    assert find_gpu("NVIDIA GeForce RTX 5090 Laptop GPU") is None
    assert find_gpu("NVIDIA GeForce RTX 4090 D") is None
    assert find_gpu("Some Other Card") is None


def test_a_card_that_is_not_in_the_table_is_what_its_driver_tells() -> None:
    unknown = Device("GPU-a", 0, "NVIDIA GeForce RTX 6090", 48 * GIB, 2000e9)
    card = card_of(unknown)
    assert card is not None
    assert (card.name, card.memory_gib, card.bandwidth, card.flops) == (unknown.name, 48, 2000e9, None)
    assert "from NVML" in card.source
    assert card_of(replace(unknown, bandwidth=None)) is None


def test_the_table_wins_over_the_driver() -> None:
    assert card_of(Device("GPU-a", 0, "NVIDIA GeForce RTX 3090", 24 * GIB, 1e9)) == find_gpu("RTX 3090")


def test_a_card_can_be_given_by_hand() -> None:
    gpu = parse_gpu("32:1792")
    assert (gpu.memory_gib, gpu.bandwidth, gpu.flops) == (32, 1792e9, None)
    with pytest.raises(ValueError, match="is no known card; write GiB:GB/s"):
        parse_gpu("RTX 9999")


def test_every_row_names_its_source_and_is_plausible() -> None:
    assert len({gpu.name for gpu in GPUS}) == len(GPUS) >= 20
    for gpu in GPUS:
        assert gpu.source
        assert 8 <= gpu.memory_gib <= 300
        assert 200 <= gpu.bandwidth_gbs <= 9000


def test_what_vllm_casts_is_read_as_it_lies_in_memory() -> None:
    """A float32 checkpoint runs in bfloat16: half the bytes of the file, in every step and for the experts alike."""
    group = TensorGroup("body", "F32", 1, 4_000_000, 1_000_000)
    facts = replace(qwen27b(), tensors=(group,), experts=Experts(8, 2, routed_bytes=2_000_000))
    asked = PlanRequest("vllm", (PlannedDevice("GPU-a", GIB),))
    as_cast, as_stored = workload_of(asked, facts), workload_of(replace(asked, engine="llama.cpp"), facts)
    assert as_cast is not None
    assert as_stored is not None
    assert (as_cast.body_bytes, as_cast.routed_bytes) == (2_000_000, 1_000_000)
    assert (as_stored.body_bytes, as_stored.routed_bytes) == (4_000_000, 2_000_000)


@pytest.mark.parametrize(
    ("typed", "card"), [("5090", "RTX 5090"), ("rtx5090", "RTX 5090"), ("3090 ti", "RTX 3090 Ti"), ("l40s", "L40S")]
)
def test_a_card_is_known_by_what_people_call_it(typed: str, card: str) -> None:
    assert parse_gpu(typed).name == card


@pytest.mark.parametrize("typed", ["A100", "RTX", "90"])
def test_a_name_that_several_cards_have_is_none(typed: str) -> None:
    with pytest.raises(ValueError, match="is no known card"):
        parse_gpu(typed)


def test_a_checkpoint_that_is_cast_is_read_in_the_type_it_runs_in_and_a_tied_head_computes() -> None:
    groups = (TensorGroup("body", "F32", 2, 80_000, 20_000), TensorGroup("embedding", "F32", 1, 40_000, 10_000))
    facts = replace(smollm2(), dtype="float32", tensors=groups, tied_head=True, quantization=None)
    found = workload_of(PlanRequest("vllm", (PlannedDevice("gpu0", None),)), facts)
    assert found is not None
    assert (found.body_bytes, found.head_bytes, found.active_parameters) == (40_000, 20_000, 30_000)


@pytest.mark.parametrize(
    ("deeper", "measured_ms", "fitted_ms"),
    [(30_000, 17.6, 17.6), (58_000, 32.2, 33.9), (24_000, 13.9, 14.0), (52_000, 35.6, 30.4)],
    ids=["one card to 32k", "one card to 60k", "two cards to 32k", "two cards to 60k"],
)
def test_one_rate_explains_what_drafts_cost_r2_at_depth(deeper: int, measured_ms: float, fitted_ms: float) -> None:
    """C5.2: keys and values of one head, 256 each, two bytes an element, 16 layers."""
    cost_ms = 1000 * lone_verification_s(deeper, head_token_bytes=(256 + 256) * 2 * 16)
    assert cost_ms == pytest.approx(fitted_ms, rel=0.01)
    assert cost_ms == pytest.approx(measured_ms, rel=1 / 6)
