"""What is typed to `plan`: values, whose flag it is, and on which devices."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gearshift.advice.plan_flags import (
    OFF,
    changed,
    flag_devices,
    foreign_flag,
    parse_acceptance,
    parse_speculation,
)
from gearshift.domain.device import CPU_DEVICE, Device
from gearshift.domain.units import GIB
from gearshift.domain.variant import EngineKind, Speculation
from gearshift.planner.gpus import parse_gpu
from gearshift.planner.request import PlannedDevice, PlanRequest

CARDS = tuple(Device(f"GPU-{name}", index, "RTX 3090", 24 * GIB) for index, name in enumerate("ab"))
HOST = Device(CPU_DEVICE, None, "host memory", 16 * GIB)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("off", OFF),
        ("mtp", Speculation("mtp")),
        ("mtp:3", Speculation("mtp", 3)),
        ("ngram:4", Speculation("ngram", 4)),
        ("draft:/models/small.gguf:5", Speculation("draft", 5, "/models/small.gguf")),
        ("draft:C:/small.gguf", Speculation("draft", None, "C:/small.gguf")),
        ("draft:7:2", Speculation("draft", 2, "7")),
    ],
)
def test_speculation_is_read_as_method_tokens_and_draft(text: str, meant: Speculation) -> None:
    assert parse_speculation(text) == meant


@pytest.mark.parametrize("text", ["", "mtp:", "mtp:x", "mtp:0", "draft:", "off:2", "eagle:1", "mtp:-1"])
def test_what_is_no_speculation_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match=f"^'{text}'"):
        parse_speculation(text)


@settings(deadline=None)
@given(st.text().filter(str.strip), st.integers(1, 64))
def test_a_draft_path_may_hold_anything(path: str, tokens: int) -> None:
    if "\n" not in path:
        assert parse_speculation(f"draft:{path}:{tokens}") == Speculation("draft", tokens, path)


def test_acceptance_is_a_list_of_rates_that_do_not_rise() -> None:
    assert parse_acceptance("0.8, 0.6,0.6") == (0.8, 0.6, 0.6)
    for text in ("", "1.1", "-0.1", "0.5,x", "nan", "0.5,,0.4"):
        with pytest.raises(ValueError, match="is no list of rates"):
            parse_acceptance(text)
    with pytest.raises(ValueError, match="rises"):
        parse_acceptance("0.5,0.6")


@pytest.mark.parametrize(
    ("engine", "given_flags", "foreign"),
    [
        ("vllm", {"ubatch": 1, "max_num_seqs": 2}, "ubatch"),
        ("vllm", {"ubatch": None, "max_num_seqs": 2, "parallel": 3}, None),
        ("llama.cpp", {"prefix_caching": False}, "prefix_caching"),
        ("llama.cpp", {"split": "tensor", "kv_bytes": None}, None),
    ],
)
def test_a_flag_of_the_other_engine_is_found(
    engine: EngineKind, given_flags: dict[str, object], foreign: str | None
) -> None:
    assert foreign_flag(engine, given_flags) == foreign


def test_only_what_was_given_changes_a_request() -> None:
    before = PlanRequest(
        "vllm", (PlannedDevice("gpu0", None),), context=1, parallel=7, speculation=Speculation("mtp", 1)
    )
    after = changed(before, {"context": 5, "max_num_seqs": None, "kv_dtype": "fp8", "speculation": None})
    assert (after.context, after.kv_dtype, after.parallel, after.speculation) == (5, "fp8", 7, before.speculation)
    assert changed(before, {"max_num_seqs": 3}).parallel == 3
    assert changed(before, {"speculation": OFF}).speculation is None


def test_devices_are_the_card_named_else_this_box_else_of_unknown_size() -> None:
    here = (*CARDS, HOST)
    named = flag_devices("cuda", 2, parse_gpu("32:1792"), here)
    assert named == (PlannedDevice("gpu0", 32 * GIB), PlannedDevice("gpu1", 32 * GIB))
    assert flag_devices("cuda", 2, None, here) == tuple(PlannedDevice(card.id, card.total_bytes) for card in CARDS)
    assert flag_devices("cuda", 3, None, here)[2] == PlannedDevice("gpu2", None)
    assert flag_devices("cpu", 1, None, here) == (PlannedDevice(CPU_DEVICE, 16 * GIB),)
    assert flag_devices("cpu", 1, parse_gpu("64:50"), here) == (PlannedDevice(CPU_DEVICE, 64 * GIB),)
    assert flag_devices("cpu", 1, None, CARDS) == (PlannedDevice(CPU_DEVICE, None),)
