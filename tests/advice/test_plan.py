"""The answers around a plan: how fast, on one card or two, and why it cannot be told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advice.plan_models import DENSE, write_config, write_hybrid, write_hybrid_gguf
from gearshift.advice.box import Box, box_of
from gearshift.advice.measured import Measured
from gearshift.advice.plan import PlanAnswer, SpeedQuestion, answer, speed_of
from gearshift.advice.plan_variants import ask_variant, cards_of
from gearshift.artifacts.model import read_model
from gearshift.domain.device import CPU_DEVICE, Device
from gearshift.domain.errors import GearshiftError
from gearshift.domain.units import GIB, MIB
from gearshift.domain.variant import EngineRef, Speculation, Variant
from gearshift.planner.calibration import Calibration
from gearshift.planner.gpus import parse_gpu
from gearshift.planner.ledger import OTHERS
from gearshift.planner.planning import plan
from gearshift.planner.request import PlannedDevice, PlanRequest
from gearshift.planner.vllm import loaded_bytes
from planner.models import qwen27b, smollm2

CARD = parse_gpu("32:1792")
VLLM = PlanRequest(
    "vllm",
    (PlannedDevice("gpu0", 32 * GIB),),
    version="0.27.1",
    context=65_536,
    kv_dtype="fp8",
    parallel=4,
    prefix_caching=True,
)
BOX = box_of(CARD, 1)


def asked(request: PlanRequest, model: Path, question: SpeedQuestion | None = None) -> PlanAnswer:
    facts = read_model(model)
    return answer(request, facts, plan(request, facts), question or SpeedQuestion(CARD))


def variant(weights: Path | str | None, **fields: object) -> Variant:
    base = Variant("qwen", "int4", EngineRef("vllm", "0.27.1"), weights=None if weights is None else str(weights))
    return replace(base, **{"context": 65_536, "kv_dtype": "fp8", "parallel": 4, **fields})  # type: ignore[arg-type] # fields by name


def ask(wanted: Variant, box: Box = BOX, **changes: object) -> PlanAnswer:
    return ask_variant(wanted, box, read_model, engine_version="0.27.1", changes=changes, question=SpeedQuestion(CARD))


def test_one_card_stands_beside_two(tmp_path: Path) -> None:
    small = replace(VLLM, devices=(PlannedDevice("gpu0", 24 * GIB),))
    one, two = asked(small, write_hybrid(tmp_path)).rooms
    assert (one.cards, two.cards) == (1, 2)
    assert (one.fits, two.fits) == (True, True)
    assert one.longest_context is not None
    assert two.longest_context is not None
    assert one.longest_context < two.longest_context
    assert [length for length, _ in one.at_once] == [65_536, 8192]


def test_an_automatic_pool_is_another_on_other_cards(tmp_path: Path) -> None:
    automatic = variant(write_hybrid(tmp_path), kv_bytes="auto", gpus=(0, 1))
    for room in ask(automatic, box_of(CARD, 2)).rooms:
        assert (room.fits, room.at_once[0]) == (True, (65_536, 1))
        assert (room.longest_context or 0) > 131_072  # the pool would grow with the context
    pinned = ask(automatic, box_of(CARD, 2), kv_bytes=ask(automatic, box_of(CARD, 2)).plan.kv_bytes)
    assert [room.at_once[0] for room in pinned.rooms] == [(65_536, 0), (65_536, 1)]


def test_several_cards_stand_beside_one(tmp_path: Path) -> None:
    cards = tuple(PlannedDevice(f"gpu{index}", 24 * GIB) for index in range(2))
    found = asked(replace(VLLM, devices=cards), write_hybrid(tmp_path))
    assert [room.cards for room in found.rooms] == [1, 2]


def test_the_host_s_memory_has_no_second_one() -> None:
    request = PlanRequest("llama.cpp", (PlannedDevice(CPU_DEVICE, GIB),), device_kind="cpu", context=2048)
    found = answer(request, smollm2(), plan(request, smollm2()), SpeedQuestion())
    assert [room.cards for room in found.rooms] == [1]


def test_what_no_card_can_hold_runs_nothing_and_is_as_long_as_what_is_left(tmp_path: Path) -> None:
    """A pool pinned larger than the card: the answers are of the card, not of the pool."""
    small = replace(VLLM, devices=(PlannedDevice("gpu0", 24 * GIB),), kv_bytes=10 * GIB)
    one, two = asked(small, write_hybrid(tmp_path)).rooms
    assert (one.fits, two.fits) == (False, True)
    assert [count for _, count in one.at_once] == [0, 0]
    assert one.longest_context is not None
    assert 0 < one.longest_context < 262_144 == two.longest_context
    tiny = replace(small, devices=(PlannedDevice("gpu0", 12 * GIB),))
    assert asked(tiny, tmp_path / "hybrid").rooms[0].longest_context == 0


def test_gguf_files_are_vllm_s_with_a_word_on_it(tmp_path: Path) -> None:
    model = write_hybrid_gguf(tmp_path / "q.gguf")
    new, old = (asked(replace(VLLM, version=version), model).plan.notes for version in ("0.24.0", "0.23.0"))
    assert "vLLM loads GGUF files up to 0.23 only, later ones with a plugin" in new
    assert not any("GGUF" in note for note in old)


def test_slots_apart_share_the_context() -> None:
    """The longest request is that of one slot, not of all together."""
    devices = (PlannedDevice("gpu0", 24 * GIB),)
    apart = PlanRequest("llama.cpp", devices, context=8192, parallel=4)
    found = answer(apart, smollm2(), plan(apart, smollm2()), SpeedQuestion(CARD))
    assert found.plan.context == 2048
    assert found.rooms[0].longest_context == 8192
    assert found.rooms[0].at_once == ((2048, 4),)


def test_a_step_with_drafts_has_a_rate_only_with_an_acceptance(tmp_path: Path) -> None:
    request = replace(VLLM, speculation=Speculation("mtp", 2))
    facts = read_model(write_hybrid(tmp_path))
    unknown = speed_of(request, facts, SpeedQuestion(CARD, measured=Measured(50, 0, 1)))
    known = speed_of(
        request, facts, SpeedQuestion(CARD, acceptance=(0.8, 0.6), measured=Measured(50, 0, 1, (0.8, 0.6)))
    )
    assert unknown is not None
    assert known is not None
    assert not unknown.acceptance_known
    assert unknown.measured_share is None
    least, most = unknown.range_tok_s
    assert most == pytest.approx(3 * least)
    assert known.bound.tok_s == pytest.approx(2.4 * least)
    assert known.measured_share == pytest.approx(50 / known.bound.tok_s)


def test_rates_must_be_one_for_each_drafted_token() -> None:
    with pytest.raises(ValueError, match="1 acceptance rates are given for 0 drafted tokens"):
        speed_of(VLLM, qwen27b(), SpeedQuestion(CARD, acceptance=(0.5,)))


def test_a_lookup_drafts_for_nothing_and_a_draft_model_for_its_own_weights(tmp_path: Path) -> None:
    facts = read_model(write_hybrid(tmp_path))

    def draft_s(request: PlanRequest) -> float:
        speed = speed_of(request, facts, SpeedQuestion(CARD))
        assert speed is not None
        return speed.bound.draft_s

    assert draft_s(replace(VLLM, speculation=Speculation("ngram", 3))) == 0
    small = replace(VLLM, speculation=Speculation("draft", 3, "small"), draft=smollm2())
    weights = loaded_bytes(small, smollm2(), ("body", "embedding"))  # norms are cast
    assert draft_s(small) == pytest.approx(3 * weights / 1792e9)


def test_the_reason_of_an_open_answer_is_said(tmp_path: Path) -> None:
    config = write_config(tmp_path, DENSE)
    unsized = replace(VLLM, devices=(PlannedDevice("gpu0", None),), kv_bytes=GIB, kv_dtype=None, context=8192)
    assert asked(unsized, config).doubt == (
        "the weights are not here: --weights-size says how large they are and the device's memory is not known"
    )
    tight = replace(VLLM, kv_bytes=8 * GIB, devices=(PlannedDevice("gpu0", 27 * GIB),))
    assert asked(tight, write_hybrid(tmp_path)).doubt == "the errors of the modelled lines decide"
    assert asked(VLLM, tmp_path / "hybrid").doubt is None


@settings(deadline=None)
@given(st.integers(0, 262_144), st.integers(1, 64))
def test_more_depth_or_batch_never_makes_a_step_shorter(depth: int, batch: int) -> None:
    def step(depth: int, batch: int) -> float:
        request = PlanRequest("llama.cpp", (PlannedDevice("gpu0", 24 * GIB),), context=8192)
        speed = speed_of(request, smollm2(), SpeedQuestion(CARD, depth, batch))
        assert speed is not None
        return speed.bound.step_s

    assert step(depth, batch) <= step(depth + 1, batch)
    assert step(depth, batch) <= step(depth, batch + 1)


def test_a_variant_is_planned_with_what_a_person_wants_to_try(tmp_path: Path) -> None:
    wanted = variant(write_hybrid(tmp_path), kv_bytes="auto")
    as_it_is, longer = ask(wanted), ask(wanted, context=131_072)
    assert as_it_is.plan.context == 65_536
    assert longer.plan.context == 131_072
    assert as_it_is.plan.kv_bytes is not None
    assert longer.plan.kv_bytes is not None
    assert longer.plan.kv_bytes > as_it_is.plan.kv_bytes


def test_what_a_start_showed_is_not_taken_for_other_settings(tmp_path: Path) -> None:
    """R1-06: the activation of small batches, measured, would promise that large ones fit beside a draft head."""
    seen = Calibration(lines={"gpu0": {"peak activation": 300 * MIB}})
    wanted = variant(write_hybrid(tmp_path), kv_bytes=4 * GIB)

    def kinds(**changes: object) -> set[str]:
        found = ask_variant(
            wanted, BOX, read_model, engine_version="0.27.1", changes=changes, question=SpeedQuestion(),
            calibration=seen,
        )  # fmt: skip
        return {line.kind for line in found.plan.ledger[0].lines if line.name == "peak activation"}

    assert kinds() == {"measured"}
    assert kinds(context=None, kv_dtype=None) == {"measured"}  # options that were not given
    assert kinds(max_num_batched_tokens=8192) == {"modelled"}


def test_what_others_hold_of_a_card_is_a_line_of_its_own(tmp_path: Path) -> None:
    box = replace(BOX, others={"gpu0": 2 * GIB})
    (ledger,) = ask(variant(write_hybrid(tmp_path), kv_bytes=4 * GIB), box).plan.ledger
    assert [line.bytes for line in ledger.lines if line.name == OTHERS] == [2 * GIB]


def test_gpus_that_are_not_on_this_box_have_no_size(tmp_path: Path) -> None:
    host = Box((Device(CPU_DEVICE, None, "host memory", 64 * GIB),))
    found = ask(variant(write_hybrid(tmp_path), gpus=(0, "GPU-x"), kv_bytes=4 * GIB), host)
    assert [(ledger.device, ledger.total_bytes) for ledger in found.plan.ledger] == [("gpu0", None), ("GPU-x", None)]
    assert found.doubt == "the device's memory is not known"


@pytest.mark.parametrize(
    ("weights", "note"),
    [
        ("/nowhere/qwen", "nothing is known of this variant's memory: /nowhere/qwen is not here"),
        (None, "nothing is known of this variant's memory: it names no weights"),
    ],
)
def test_a_variant_without_its_files_says_what_is_missing(weights: str | None, note: str) -> None:
    found = ask(variant(weights))
    assert (found.plan.fits, found.plan.notes, found.request) == (None, (note,), None)


def test_declared_memory_needs_no_files() -> None:
    found = ask(variant(None, memory=30 * GIB))
    assert found.plan.fits is True
    assert found.document()["ceiling"] == {
        "tok_s": None,
        "dominant": None,
        "tokens_per_step": None,
        "terms": dict.fromkeys(("weights_s", "kv_s", "state_s", "draft_s", "compute_s", "step_s")),
        "measured_share": None,
        "measured": None,
        "card": None,
        "unknown": None,
    }


def test_a_setting_that_the_engine_does_not_have_is_the_whole_answer(tmp_path: Path) -> None:
    model = write_hybrid_gguf(tmp_path / "q.gguf")
    found = ask(variant(model, engine=EngineRef("llama.cpp"), kv_dtype="fp8"))
    assert found.plan.fits is False
    assert found.rooms == ()


def test_damaged_weights_are_an_error_with_their_place(tmp_path: Path) -> None:
    (tmp_path / "q.gguf").write_bytes(b"nothing")
    with pytest.raises(GearshiftError, match=r"q\.gguf"):
        ask(variant(tmp_path / "q.gguf", engine=EngineRef("llama.cpp")))


def test_a_separate_draft_model_and_a_projector_are_read(tmp_path: Path) -> None:
    model, draft = write_hybrid_gguf(tmp_path / "q.gguf"), write_hybrid_gguf(tmp_path / "d.gguf")
    (tmp_path / "mmproj.gguf").write_bytes(b"\0" * 4096)
    wanted = variant(
        model,
        engine=EngineRef("llama.cpp"),
        kv_dtype="f16",
        speculation=Speculation("draft", 3, str(draft)),
        args={"mmproj": str(tmp_path / "mmproj.gguf")},
    )
    found = ask(wanted)
    assert found.request is not None
    assert found.request.draft is not None
    assert [line.bytes for line in found.plan.ledger[0].lines if line.name == "projector"] == [4096]


@pytest.mark.parametrize(
    ("gpus", "cards"), [(None, 1), ((0,), 1), ((1,), 2), ((0, 1), 2), (("GPU-a", "GPU-b"), 2), ((), 1)]
)
def test_a_box_elsewhere_has_the_cards_that_a_variant_names(gpus: tuple[int | str, ...] | None, cards: int) -> None:
    assert cards_of(variant(None, gpus=gpus)) == cards
