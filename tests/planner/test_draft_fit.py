"""Separate drafters beside their targets: what vLLM refuses, what llama.cpp loads and leaves idle, what both take."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gearshift.artifacts.facts import ModelFacts, Tokens
from gearshift.domain.variant import EngineKind, Speculation
from gearshift.planner.ledger import Plan
from gearshift.planner.planning import plan
from gearshift.planner.request import PlannedDevice, PlanRequest
from planner.models import dense, qwen06b, qwen27b, qwen27b_gguf

NORM = "layers.0.self_attn.q_norm.weight has 128 rows where the config makes 256"
DFLASH = replace(dense(5, kv_heads=8, head_dim=128, hidden=5120), family="DFlashDraftModel", reads_hidden=5120)
BPE = Tokens("gpt2", bos=1, eos=2, adds_bos=True, adds_eos=False)


def beside(engine: EngineKind, target: ModelFacts, draft: ModelFacts, method: str = "draft", **more: bool) -> Plan:
    wanted = PlanRequest(
        engine, (PlannedDevice("GPU-a", None),), version=None if engine == "llama.cpp" else "0.27.1", context=4096,
        speculation=Speculation(method, 3, "/d"), draft=draft, any_draft_vocabulary=more.get("any_vocabulary", False),
    )  # fmt: skip
    return plan(wanted, target)


def test_r1_17_a_drafter_whose_tensors_are_128_where_256_are_built_is_refused() -> None:
    planned = beside("vllm", qwen27b(), replace(DFLASH, misshapen=(NORM,)), "dspark")
    assert planned.fits is False
    assert planned.refusals == (f"the drafter's {NORM}",)


def test_a_drafter_of_its_own_head_size_that_reads_the_targets_width_is_taken() -> None:
    assert beside("vllm", qwen27b(), DFLASH, "dflash").refusals == ()


def test_a_drafter_made_for_a_model_of_another_width_is_refused() -> None:
    planned = beside("vllm", qwen27b(), replace(DFLASH, reads_hidden=4096), "dflash")
    assert planned.refusals == ("the drafter reads hidden states of 4096, the target's are 5120 wide",)


def test_vllm_takes_a_draft_model_of_the_same_vocabulary_only() -> None:
    small, padded = qwen06b(), replace(qwen06b(), vocab=152_064)
    assert beside("vllm", qwen06b(), small).refusals == ()
    assert beside("vllm", padded, small).refusals == ("the draft model has 151936 tokens, the target 152064",)
    assert beside("vllm", padded, small, any_vocabulary=True).refusals == ()


@pytest.mark.parametrize(
    ("target", "draft", "words"),
    [
        ({"vocab": 248_320}, {"vocab": 248_192}, None),  # 128 apart: padding, which llama.cpp lets pass
        ({"vocab": 248_320}, {"vocab": 248_191}, "the draft model has 248191 tokens, the target 248320"),
        ({"tokens": BPE}, {"tokens": BPE}, None),
        ({"tokens": BPE}, {"tokens": Tokens("llama")}, "the draft model's tokenizer is llama, the target's gpt2"),
        ({"tokens": BPE}, {"tokens": replace(BPE, bos=7)}, "the two add different first tokens (7 and 1)"),
        ({"tokens": BPE}, {"tokens": replace(BPE, eos=7)}, None),  # nobody adds it
        ({"tokens": BPE}, {"tokens": replace(BPE, adds_eos=True)}, "the two add different last tokens (2 and 2)"),
        ({"tokens": BPE}, {}, None),
    ],
)
def test_llama_cpp_starts_beside_a_foreign_vocabulary_and_drafts_nothing(
    target: dict[str, object], draft: dict[str, object], words: str | None
) -> None:
    plain = replace(qwen27b_gguf(), mtp=None, mtp_layers=())
    planned = beside("llama.cpp", replace(plain, **target), replace(plain, **draft))  # type: ignore[arg-type]  # by name
    assert planned.refusals == ()
    assert [note for note in planned.notes if "draft nothing" in note] == (
        [f"llama.cpp will start and draft nothing: {words}"] if words else []
    )


def test_a_head_that_reads_hidden_states_has_no_vocabulary_to_compare() -> None:
    assert beside("vllm", qwen27b(), replace(DFLASH, vocab=32_000), "eagle3").refusals == ()


def test_llama_cpp_fails_every_request_beside_hidden_states_of_another_width() -> None:
    plain = replace(qwen27b_gguf(), mtp=None, mtp_layers=())
    planned = beside("llama.cpp", plain, replace(plain, family="dflash", reads_hidden=4096), "draft-dflash")
    assert "llama.cpp will start and fail every request: the drafter reads hidden states of 4096" in planned.notes[-1]
