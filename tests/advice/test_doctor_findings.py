"""What findings say, and how grave they are, where that depends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from advice.test_doctor_checks import DRAFTING, STATE, WORKER, about, reading, seen
from fakes.cases import MTP, OFF, box, card, dense, hybrid, llamacpp, setup, vllm
from gearshift.advice.doctor import BOX_CHECKS, VARIANT_CHECKS, Case, Pins
from gearshift.artifacts.facts import Layer, MtpFacts
from gearshift.domain.units import GIB
from gearshift.hardware import HostMemory


@pytest.mark.parametrize(
    ("case", "severity"), [(vllm(speculation=DRAFTING), "error"), (llamacpp(speculation=DRAFTING), "warning")]
)
def test_foreign_words_stop_one_engine_and_idle_the_other_while_foreign_shapes_stop_both(
    case: Case, severity: str
) -> None:
    foreign = about(case, draft=dense(vocab=500, reads_hidden=128))
    found = [seen(VARIANT_CHECKS, name, foreign) for name in ("draft-vocabulary", "draft-shapes")]
    assert [finding.severity for findings in found for finding in findings] == [severity, "error"]


def test_mixed_vocabularies_that_were_asked_for_are_no_fault() -> None:
    config = '{"method":"draft_model","model":"/models/d","use_heterogeneous_vocab":true}'
    asked = about(vllm(args={"speculative-config": config}), draft=dense(vocab=999))
    assert seen(VARIANT_CHECKS, "draft-vocabulary", asked) == []
    unasked = about(vllm(args={"speculative-config": config.replace("true", "false")}), draft=dense(vocab=999))
    assert len(seen(VARIANT_CHECKS, "draft-vocabulary", unasked)) == 1


def test_a_window_of_several_slots_may_be_longer_than_one() -> None:
    pool = llamacpp(dense(context_train=8192), context=32768, parallel=4)
    assert seen(VARIANT_CHECKS, "context-beyond-training", pool) == []


def test_llama_cpp_starts_beyond_its_training_so_that_is_a_warning() -> None:
    (finding,) = seen(VARIANT_CHECKS, "context-beyond-training", llamacpp(dense(context_train=4096), context=8192))
    assert finding.severity == "warning"


def test_a_broken_head_that_nobody_asks_for_is_a_note() -> None:
    broken = hybrid(mtp=MtpFacts(1, complete=False, missing=("mtp.fc.weight",)))
    (finding,) = seen(VARIANT_CHECKS, "mtp-incomplete", vllm(broken, speculation=OFF))
    assert finding.severity == "note"


def test_checkpoints_count_beside_the_prompt_cache_and_no_limit_is_more_than_any_ram() -> None:
    roomy = box(1, memory=HostMemory(64 * GIB, 10 * GIB, 0, 0))
    (finding,) = seen(
        VARIANT_CHECKS, "llamacpp-host-cache", llamacpp(hybrid(recurrent=STATE), context=262144, on=roomy)
    )
    assert "and checkpoints" in finding.what
    assert seen(VARIANT_CHECKS, "llamacpp-host-cache", llamacpp(context=262144, on=roomy)) == []
    (endless,) = seen(VARIANT_CHECKS, "llamacpp-host-cache", llamacpp(on=roomy, args={"cache-ram": -1}))
    assert "no limit" in endless.what


def test_sliding_windows_cannot_shift_their_cache_either() -> None:
    sliding = dense(family="gemma3", layers=(Layer("sliding", 1, 64, 64),))
    (finding,) = seen(VARIANT_CHECKS, "llamacpp-cache-reuse", llamacpp(sliding, args={"context-shift": None}))
    assert finding.place == "args.context-shift"
    whole = llamacpp(sliding, args={"context-shift": None, "swa-full": None})
    assert seen(VARIANT_CHECKS, "llamacpp-cache-reuse", whole) == []


def test_what_verifying_alone_costs_is_told_for_caches_that_it_was_published_for() -> None:
    def told(**settings: Any) -> str:
        case = vllm(hybrid(), speculation=MTP, context=65536, args={"attention-backend": "TRITON_ATTN"}, **settings)
        (finding,) = seen(VARIANT_CHECKS, "vllm-triton-mtp-depth", case)
        return finding.what

    assert told() == "TRITON_ATTN verifies drafts over up to 65536 tokens, where a step takes about 1 ms longer"
    assert told(kv_dtype="fp8") == "TRITON_ATTN verifies drafts over up to 65536 tokens"


def test_peer_access_that_is_not_known_is_not_missing() -> None:
    assert seen(VARIANT_CHECKS, "p2p-missing", vllm(on=box(2))) == []


def test_an_open_listen_that_was_asked_for_is_a_warning() -> None:
    (finding,) = seen(BOX_CHECKS, "exposed-listen", setup(host="0.0.0.0", allow_open=True))
    assert finding.severity == "warning"


def test_another_build_of_the_pinned_version_is_a_note() -> None:
    case = about(vllm(), pins=Pins(engine_version="0.32.0", engine_digest="bb"))
    assert [finding.severity for finding in seen(VARIANT_CHECKS, "pin-engine", case)] == ["note"]


def test_a_toolkit_that_is_there_but_not_told_is_named() -> None:
    case = vllm(args={"attention-backend": "FLASHINFER"}, on=box(1, cuda_folder=Path("/opt/cuda")))
    (finding,) = seen(VARIANT_CHECKS, "nvcc-missing", case)
    assert finding.what.endswith("though a toolkit is at /opt/cuda")


def test_a_worker_that_leaked_is_named_with_its_pid_and_what_it_holds() -> None:
    (finding,) = seen(BOX_CHECKS, "leaked-engine", setup(box(1, processes=(WORKER,))))
    assert finding.what == "pid 71 (VLLM::Worker_TP0) holds 9 GiB, and no server owns it"


def test_the_card_is_named_by_its_index() -> None:
    (finding,) = seen(BOX_CHECKS, "gpu-shared", setup(box(1, readings=reading(2 * GIB, {}))))
    assert (finding.what, finding.place) == (f"2 GiB of {card(0).name} are in use", "GPU 0")


@pytest.mark.parametrize(
    ("case", "severities"),
    [
        (about(vllm(), checkpoint=("m-Q8_0.gguf",)), ["error"]),
        (about(vllm(args={"load-format": "safetensors"}), checkpoint=("pytorch_model.bin",)), ["error"]),
        (about(vllm(args={"load-format": "dummy"}), checkpoint=()), []),
        (about(vllm(), checkpoint=None), []),  # no folder with a config.json
        (about(vllm(dense(missing_files=("a.safetensors",))), checkpoint=()), []),  # model-files-missing says so
        (about(llamacpp(), checkpoint=()), []),
        (about(vllm(weights="org/m"), checkpoint=()), ["note"]),
        (about(vllm(weights="org/m", env={"HF_HUB_OFFLINE": "1"}), checkpoint=()), ["error"]),
    ],
)
def test_a_folder_without_weights_is_as_grave_as_what_comes_of_it(case: Case, severities: list[str]) -> None:
    assert [found.severity for found in seen(VARIANT_CHECKS, "model-weights-absent", case)] == severities


def test_files_that_the_hub_still_has_are_no_error() -> None:
    (finding,) = seen(VARIANT_CHECKS, "model-files-missing", vllm(dense(missing_files=("a",)), weights="org/m"))
    assert (finding.severity, finding.what) == ("note", "not there: a: not fetched yet")
