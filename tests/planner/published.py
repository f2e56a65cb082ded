"""What the published cases were run with, as the roofline counts it: weights by recipe, caches, cards."""

from __future__ import annotations

from gearshift.planner.ceiling import Ceiling, Hardware, Workload, decode_ceiling
from gearshift.planner.gpus import parse_gpu

STATE = 156_893_184
KV = {"fp8": (32_768, 2_048), "f16": (65_536, 4_096), "q8_0": (34_816, 2_176), "q4_0": (18_432, 1_152)}
RECIPES = {  # body, head, draft head in GB
    "nvfp4-mixed": (16.864, 0.715, 0.849),
    "nvfp4-mixed, bf16 head": (16.864, 2.543, 0.849),
    "nvfp4-all": (13.697, 2.543, 0.849),
    "int4": (12.650, 2.543, 0.298),
    "int4, int4 fc": (12.650, 2.543, 0.221),
    "int8": (29.145, 2.543, 0.849),  # 36 GB as stated, less embedding, head, draft head and vision tower
    "UD-Q4_K_XL": (15.792, 1.043, 0.348),
    "UD-Q4_K_M": (14.347, 1.043, 0.348),
    "UD-Q5_K_M": (17.654, 1.043, 0.348),
    "Q6_K": (19.976, 1.043, 0.349),
    "Q8_0": (25.873, 1.350, 0.452),
    "fp8": (24.351, 2.543, 0.425),
}
LLAMACPP = frozenset({"UD-Q4_K_XL", "UD-Q4_K_M", "UD-Q5_K_M", "Q6_K", "Q8_0"})


def work(recipe: str, kv: str, draft_kv: str | None = None) -> Workload:
    body, head, draft = (int(size * 1e9) for size in RECIPES[recipe])
    return Workload(
        body_bytes=body,
        head_bytes=head,
        kv_token_bytes=KV[kv][0],
        state_bytes=STATE,
        draft_bytes=draft,
        draft_kv_token_bytes=KV[draft_kv or kv][1],
        catches_up=recipe in LLAMACPP,
        active_parameters=25.6e9,
    )


def even(expected: float, drafted: int) -> tuple[float, ...]:
    """Acceptance by position that gives so many tokens per step."""
    return ((expected - 1) / drafted,) * drafted if drafted else ()


def bound(recipe: str, kv: str, card: str, depth: int, accepted: tuple[float, ...] = (), *, cards: int = 1) -> Ceiling:
    """The ceiling of one sequence on cards of the table that work together."""
    hardware = Hardware(parse_gpu(card).bandwidth, cards=cards)
    return decode_ceiling(work(recipe, kv, "f16" if kv == "q8_0" else None), hardware, depth=depth, acceptance=accepted)


def step_ms(ceiling: Ceiling, tok_s: float) -> float:
    """How long a step took at a measured speed: its bytes and what they leave unexplained."""
    return 1e3 * (ceiling.step_s + ceiling.unexplained_s(tok_s))
