"""Every speed that was published of a card in our table lies below its ceiling, and in the range seen elsewhere.

The ids are those of docs/readings.md. What the bytes do not explain is said where it shows.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from gearshift.planner.ceiling import Hardware, cost_ratio, decode_ceiling, fitted_overhead
from gearshift.planner.gpus import parse_gpu
from gearshift.stats.crossing import crossing
from planner.published import bound, even, step_ms, work


class Speed(NamedTuple):
    """A measured decode rate: recipe, cache, card, cards at once, depth, acceptance by position, tok/s, share range."""

    recipe: str
    kv: str
    card: str
    cards: int
    depth: int
    accepted: tuple[float, ...]
    tok_s: float
    least: float
    most: float


R2_N3 = even(3.13, 3)  # 71 % of three tokens
CODE = (0.88, 0.78, 0.56)
SPEEDS = {
    "R1-07 and R1-08": Speed("nvfp4-mixed", "fp8", "RTX 5090", 1, 500, (), 1000 / 12.959, 0.66, 0.82),
    "R1-08 peak": Speed("nvfp4-mixed", "fp8", "RTX 5090", 1, 500, (), 78, 0.66, 0.82),
    "R1-09": Speed("nvfp4-mixed", "fp8", "RTX 5090", 1, 131_072, (), 1000 / 15.463, 0.66, 0.82),
    "R2-01": Speed("nvfp4-mixed", "f16", "RTX 5090", 1, 500, (0.73,) * 3, 120, 0.4, 0.6),
    "R2-01 earlier": Speed("nvfp4-mixed", "f16", "RTX 5090", 1, 500, (0.73,) * 3, 117, 0.4, 0.6),
    "R2-02": Speed("nvfp4-mixed", "f16", "RTX 5090", 2, 500, (0.73,) * 3, 108, 0.2, 0.6),
    "R2-02 earlier": Speed("nvfp4-mixed", "f16", "RTX 5090", 2, 500, (0.73,) * 3, 118, 0.2, 0.6),
    "R3-01": Speed("Q6_K", "q8_0", "RTX 3090", 1, 1_000, (0.54,) * 3, 43.1, 0.4, 0.65),
    "R3-02": Speed("Q8_0", "q8_0", "RTX 3090", 1, 1_000, (0.55,) * 3, 44.2, 0.4, 0.65),
    "R3-03": Speed("int8", "fp8", "RTX 3090", 2, 1_000, (0.77, 0.49), 51.6, 0.25, 0.55),
    "R3-04": Speed("int4", "fp8", "RTX 3090", 2, 1_000, (0.75, 0.47, 0.27), 53.7, 0.25, 0.55),
    "R3-08 row": Speed("Q8_0", "f16", "RTX 3090", 1, 1_000, CODE, 44, 0.4, 0.65),
    "R3-08 layer": Speed("Q8_0", "f16", "RTX 3090", 1, 1_000, CODE, 52, 0.4, 0.65),
    "R3-08 tensor": Speed("Q8_0", "f16", "RTX 3090", 2, 1_000, CODE, 70, 0.3, 0.5),
    "R3-09 row": Speed("Q8_0", "f16", "RTX 3090", 1, 1_000, (0.55,) * 3, 35, 0.4, 0.65),
    "R3-09 layer": Speed("Q8_0", "f16", "RTX 3090", 1, 1_000, (0.55,) * 3, 45, 0.4, 0.65),
    "R3-09 tensor": Speed("Q8_0", "f16", "RTX 3090", 2, 1_000, (0.55,) * 3, 56, 0.3, 0.5),
    "R3-10": Speed("Q8_0", "f16", "RTX 3090", 2, 37_000, CODE, 60, 0.3, 0.5),
    "R3-13": Speed("int4", "fp8", "RTX 3090", 2, 1_000, CODE, 81, 0.25, 0.55),
    "C-28 row split of 5060 Ti": Speed("UD-Q4_K_M", "q4_0", "RTX 5060 Ti", 2, 4_096, even(2.6, 3), 56, 0.3, 0.65),
} | {
    f"R2-{row:02d} at {depth}": Speed("nvfp4-mixed", "f16", "RTX 5090", cards, depth, accepted, tok_s, least, most)
    for row, cards, accepted, rates, least, most in (
        (7, 1, (), (66, 65, 61, 57), 0.64, 0.72),
        (8, 1, R2_N3, (107, 100, 62, 46), 0.2, 0.5),
        (9, 2, (), (99, 96, 89, 81), 0.45, 0.52),
        (10, 2, R2_N3, (105, 117, 72, 45), 0.1, 0.3),
    )
    for depth, tok_s in zip((2_000, 8_000, 32_000, 60_000), rates, strict=True)
}  # fmt: skip


@pytest.mark.parametrize("name", SPEEDS)
def test_a_published_speed_is_below_its_ceiling_and_in_the_range_of_its_kind(name: str) -> None:
    speed = SPEEDS[name]
    ceiling = bound(speed.recipe, speed.kv, speed.card, speed.depth, speed.accepted, cards=speed.cards)
    assert speed.least <= ceiling.fraction_of(speed.tok_s) <= speed.most
    assert ceiling.tok_s > speed.tok_s


@pytest.mark.parametrize(
    ("case", "off", "on", "shares"),
    [
        ("one card", (66, 65, 61, 57), (107, 100, 62, 46), (1.62, 1.54, 1.02, 0.81)),
        ("two cards", (99, 96, 89, 81), (105, 117, 72, 45), (1.06, 1.22, 0.81, 0.56)),
    ],
)
def test_r2_11_and_12_what_drafts_gained_is_far_below_what_their_bytes_allow(
    case: str, off: tuple[int, ...], on: tuple[int, ...], shares: tuple[float, ...]
) -> None:
    """Bytes allow more than twofold everywhere: the loss at depth belongs to the attention kernel (TRITON_ATTN)."""
    cards = 1 if case == "one card" else 2
    for depth, plain, drafted, share in zip((2_000, 8_000, 32_000, 60_000), off, on, shares, strict=True):
        without = bound("nvfp4-mixed", "f16", "RTX 5090", depth, cards=cards)
        with_drafts = bound("nvfp4-mixed", "f16", "RTX 5090", depth, R2_N3, cards=cards)
        gain = (with_drafts.fraction_of(drafted) * with_drafts.tok_s) / (without.fraction_of(plain) * without.tok_s)
        assert gain == pytest.approx(share, abs=0.006)
        assert with_drafts.tok_s > 2 * without.tok_s


def test_r2_03_to_05_bytes_alone_would_have_kept_drafting_where_the_server_lost() -> None:
    """The roofline has drafts pay twofold at 12 and 16 in flight, R2 measured a loss: only measuring tells."""
    model, hardware = work("nvfp4-mixed", "f16"), Hardware(1792e9, 210e12)
    allowed = {load: 3.13 / cost_ratio(model, hardware, depth=500, drafted=3, batch=load) for load in (1, 4, 8, 12, 16)}
    assert sorted(allowed.values(), reverse=True) == list(allowed.values())  # batching takes MTP's place
    assert min(allowed.values()) > 2
    for total in (414, 250):  # the point at 4 that did not repeat
        ceiling = decode_ceiling(model, hardware, depth=500, batch=4, acceptance=(0.73,) * 3)
        assert 0.25 < ceiling.fraction_of(total) < 0.5
    plain = decode_ceiling(model, hardware, depth=500, batch=4)
    assert plain.fraction_of(414 / 1.81) == pytest.approx(0.61, abs=0.01)


@pytest.mark.parametrize(("depth", "rate", "tok_s"), [(2_000, 0.71, 242), (60_000, 0.60, 362)])
def test_r2_15_the_ceilings_at_the_acceptance_that_was_stated(depth: int, rate: float, tok_s: float) -> None:
    cards = 1 if depth == 2_000 else 2
    assert bound("nvfp4-mixed", "f16", "RTX 5090", depth, (rate,) * 3, cards=cards).tok_s == pytest.approx(
        tok_s, rel=0.003
    )


def test_r3_07_a_fourth_token_costs_more_than_its_acceptance_brings() -> None:
    three, four = (bound("Q8_0", "q8_0", "RTX 3090", 1_000, (rate,) * n) for rate, n in ((0.55, 3), (0.43, 4)))
    assert four.tok_s < three.tok_s
    assert three.fraction_of(46) == pytest.approx(four.fraction_of(40), abs=0.07)


def test_r3_13_the_code_prompt_is_where_the_ladder_s_overhead_puts_it() -> None:
    assert bound("int4", "fp8", "RTX 3090", 1_000, CODE, cards=2).with_overhead(26.3e-3) == pytest.approx(81, abs=1)


def test_r3_12_its_own_ladder_contradicts_27_tokens_a_second_at_185_thousand() -> None:
    ceiling = bound("int4", "fp8", "RTX 3090", 185_476, even(3.34, 3), cards=2)
    assert ceiling.with_overhead(26.3e-3) == pytest.approx(77, abs=1)
    assert ceiling.fraction_of(27) < 0.15  # variant and clock were not stated


@pytest.mark.parametrize(
    ("accepted", "tok_s", "ms"),
    [
        ((0.92, 0.80, 0.61), 80, 41.6),
        ((0.91, 0.80, 0.65), 84, 40.0),
        ((0.90, 0.79, 0.64), 84, 39.6),
        ((0.80, 0.62, 0.49), 69, 42.2),
        ((0.90, 0.78, 0.66), 80, 41.8),
        ((0.91, 0.82, 0.66), 78, 43.5),
        ((0.93, 0.82, 0.66), 75, 45.5),
    ],
    ids=["8K", "32K", "64K", "120K", "180K", "200K", "262K"],
)
def test_r3_14_to_17_a_step_is_its_tokens_over_the_rate_whatever_the_depth(
    accepted: tuple[float, ...], tok_s: float, ms: float
) -> None:
    for depth in (8_000, 262_144):
        ceiling = bound("int4", "fp8", "RTX 3090", depth, accepted, cards=2)
        assert step_ms(ceiling, tok_s) == pytest.approx(ms, abs=0.06)
        assert ceiling.fraction_of(tok_s) < 0.5


LLAMACPP_LADDER = ((8_000, 76), (64_000, 68), (120_000, 61), (180_000, 57), (200_000, 56))


def test_r3_18_one_constant_nearly_explains_llama_cpp_s_ladder_too() -> None:
    """Its acceptance by depth was not published and is taken as that of the code prompt."""
    bounds = [bound("Q8_0", "f16", "RTX 3090", depth, CODE, cards=2) for depth, _ in LLAMACPP_LADDER]
    rates = [rate for _, rate in LLAMACPP_LADDER]
    overhead = fitted_overhead(bounds, rates)
    assert [ceiling.with_overhead(overhead) for ceiling in bounds] == pytest.approx(rates, rel=0.12)
    slope = (step_ms(bounds[-1], 56) - step_ms(bounds[0], 76)) / 192  # ms for 1,000 tokens
    by_bytes = 1e3 * (bounds[-1].step_s - bounds[0].step_s) / 192
    assert by_bytes < slope < 2.5 * by_bytes


@pytest.mark.parametrize(
    ("card", "kv", "cards", "near", "far", "measured", "ideal"),
    [
        ("RTX 5090", "fp8", 1, (500, 77), (131_072, 64.7), 0.0189, 0.0183),
        ("RTX 5090", "f16", 1, (2_000, 66), (60_000, 57), 0.0412, 0.0366),
        ("RTX 5090", "f16", 2, (2_000, 99), (60_000, 81), 0.0387, 0.0183),
    ],
)
def test_the_measured_cost_of_depth_is_never_below_that_of_its_bytes(
    card: str, kv: str, cards: int, near: tuple[int, float], far: tuple[int, float], measured: float, ideal: float
) -> None:
    (low, fast), (high, slow) = near, far
    shallow, deep = (bound("nvfp4-mixed", kv, card, depth, cards=cards) for depth in (low, high))
    found = 1e3 * (step_ms(deep, slow) - step_ms(shallow, fast)) / (high - low)
    assert found == pytest.approx(measured, abs=0.0002)
    assert found > ideal


def test_a_cache_in_8_bits_would_contradict_r2_by_half() -> None:
    """Its slope is more than twice that of fp8: R2 set no cache type, so the cache was in the model's own."""
    slopes = [
        1e6 * (bound("nvfp4-mixed", kv, "RTX 5090", 60_000).step_s - bound("nvfp4-mixed", kv, "RTX 5090", 2_000).step_s)
        / 58_000
        for kv in ("fp8", "f16")
    ]  # fmt: skip
    assert 0.0412 / slopes[0] > 2
    assert 0.8 < slopes[1] / 0.0412 < 1


def test_llama_cpp_s_drafts_pay_at_every_depth_on_two_5060_ti() -> None:
    depths, off, on = (4, 16, 32, 65, 130), (36, 35, 32, 29, 24), (56, 53, 51, 56, 46)
    assert crossing([(depth, drafted / plain) for depth, plain, drafted in zip(depths, off, on, strict=True)]) is None


def test_a_sixteen_bit_head_would_lower_r2_s_ceilings() -> None:
    near, far = (bound("nvfp4-mixed, bf16 head", "f16", "RTX 5090", depth) for depth in (2_000, 60_000))
    assert (near.tok_s, far.tok_s) == pytest.approx((90, 76), abs=0.6)
    ratios = [
        cost_ratio(work(recipe, "f16"), Hardware(1792e9), depth=2_000, drafted=3)
        for recipe in ("nvfp4-mixed, bf16 head", "nvfp4-mixed")
    ]
    assert ratios == pytest.approx([1.54, 1.29], abs=0.006)


def test_a_projection_in_four_bits_saves_an_eighth_of_a_millisecond() -> None:
    plain, packed = (
        bound(recipe, "fp8", "RTX 3090", 8_000, (0.9,) * 3, cards=2) for recipe in ("int4", "int4, int4 fc")
    )
    assert 1e3 * (plain.step_s - packed.step_s) == pytest.approx(0.12, abs=0.005)


def test_a_measured_step_with_four_drafts_costs_more_than_its_bytes() -> None:
    """qwen38-mtp on a 5090: 74.5 tok/s plain, 169.1 with four drafts and 3.76 tokens a step."""
    plain = bound("UD-Q4_K_XL", "q4_0", "RTX 5090", 500)
    drafted = bound("UD-Q4_K_XL", "q4_0", "RTX 5090", 500, even(3.76, 4))
    assert step_ms(drafted, 169.1) / step_ms(plain, 74.5) == pytest.approx(1.66, abs=0.005)
    assert drafted.step_s / plain.step_s == pytest.approx(1.38, abs=0.01)


def test_the_logged_cost_of_drafting_runs_at_two_thirds_of_the_peak() -> None:
    """[L 01]: 1023.5 ms of drafting in 204 steps of 53.5 ms; one card, two drafted tokens at 2,300 tokens."""
    ceiling = bound("UD-Q5_K_M", "f16", "RTX 3090", 2_300, (0.833, 0.672))
    assert ceiling.draft_s / (1.0235 / 204) == pytest.approx(0.68, abs=0.01)
    assert step_ms(ceiling, 46.73) == pytest.approx(53.6, abs=0.1)


def test_a_reply_of_40_tokens_a_second_on_a_gb10_takes_more_than_one_token_a_step() -> None:
    plain = bound("nvfp4-mixed", "fp8", "GB10", 500)
    assert plain.fraction_of(40) == pytest.approx(2.6, abs=0.05)  # beyond plain decoding: a drafter's doing


@pytest.mark.parametrize(
    ("name", "bandwidth", "flops"),
    [
        ("RTX 3090", 936e9, 71e12),
        ("RTX 4090", 1008e9, 165e12),
        ("RTX 5090", 1792e9, 210e12),
        ("RTX 5060 Ti", 448e9, None),
        ("RTX PRO 6000", 1792e9, 467.8e12),
        ("H200", 4800e9, 989e12),
        ("GB10", 273e9, None),
    ],
)
def test_the_cards_of_the_published_cases_are_in_the_table(name: str, bandwidth: float, flops: float | None) -> None:
    gpu = parse_gpu(name)
    assert (gpu.bandwidth, gpu.flops) == (bandwidth, flops)
