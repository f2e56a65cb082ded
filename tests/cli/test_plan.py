"""`plan` asked by flags: the document other programs read, published figures, the exit statuses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from advice.plan_models import DENSE, HYBRID, write_config, write_hybrid, write_hybrid_gguf
from cli.planning import FLAGS, Gearshift, document, plan_hybrid
from gearshift.domain.units import MIB

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_document_has_the_keys_that_other_programs_read(gearshift: Gearshift, tmp_path: Path) -> None:
    flags = ("--weights", str(write_config(tmp_path, DENSE)), "--kv-bytes", "1GiB", "--gpu", "24:936", "--json")
    found = document(gearshift("plan", "--engine", "vllm", "--engine-version", "0.32.0", *flags))
    assert found == snapshot(
        {
            "fits": None,
            "refusals": [],
            "context": 8192,
            "kv": {
                "block_size": 16,
                "bytes_per_block": 368640,
                "blocks": 2912,
                "blocks_per_request": 512,
                "tokens": 46592,
                "concurrency": 5.6875,
                "max_context": 8192,
                "min_bytes": 189112320,
                "recommended_bytes": 189112320,
                "exact": True,
            },
            "ledger": [
                {
                    "gpu": "gpu0",
                    "total_bytes": 25769803776,
                    "lines": [
                        {
                            "name": "cuda context",
                            "bytes": 429496729,
                            "kind": "modelled",
                            "error_bytes": 214748364,
                        },
                        {
                            "name": "libraries",
                            "bytes": 268435456,
                            "kind": "modelled",
                            "error_bytes": 214748364,
                        },
                        {
                            "name": "peak activation",
                            "bytes": 644245094,
                            "kind": "modelled",
                            "error_bytes": 322122547,
                        },
                        {
                            "name": "cuda graphs",
                            "bytes": 214748364,
                            "kind": "modelled",
                            "error_bytes": 214748364,
                        },
                        {
                            "name": "kv pool",
                            "bytes": 1073741824,
                            "kind": "exact",
                            "error_bytes": 0,
                        },
                    ],
                }
            ],
            "host": [],
            "notes": [],
            "ceiling": {
                "tok_s": None,
                "dominant": None,
                "tokens_per_step": None,
                "terms": {
                    "weights_s": None,
                    "kv_s": None,
                    "state_s": None,
                    "draft_s": None,
                    "compute_s": None,
                    "step_s": None,
                },
                "measured_share": None,
                "measured": None,
                "card": None,
                "unknown": "the weights are not here",
            },
            "rooms": [
                {
                    "gpus": 1,
                    "fits": None,
                    "longest_context": 8192,
                    "at_once": [{"tokens": 8192, "requests": 5}],
                },
                {
                    "gpus": 2,
                    "fits": False,
                    "longest_context": None,
                    "at_once": [],
                },
            ],
            "levers": [
                {"name": "kv type", "change": "kv_dtype auto -> fp8", "freed_bytes": 94556160},
                {"name": "context", "change": "context 8,192 -> 4,096", "freed_bytes": 94371840},
            ],
        }
    )


def test_a_reading_short_of_288_tokens_is_refused(gearshift: Gearshift, tmp_path: Path) -> None:
    found = plan_hybrid(gearshift, tmp_path, "--kv-bytes", "8939000000", status=1)
    assert found["fits"] is False
    assert found["refusals"] == snapshot(
        [
            (
                "one request of 262144 tokens needs 8.33 GiB of KV cache, more than the 8.33 GiB available: "
                "it is 288 tokens, or 1,158,976 bytes, short; set kv_bytes to 8991539200, or set context to 261856"
            )
        ]
    )
    assert found["kv"] == snapshot(
        {
            "block_size": 1568,
            "bytes_per_block": 51380224,
            "blocks": 173,
            "blocks_per_request": 174,
            "tokens": 260637,
            "concurrency": 0.9942528735632183,
            "max_context": 261856,
            "min_bytes": 8940158976,
            "recommended_bytes": 8991539200,
            "exact": True,
        }
    )


@pytest.mark.parametrize(
    ("more", "figures"),
    [
        (("--kv-bytes", "9150000000"), (268_170, 1.02, 8_940_158_976, 8_991_539_200)),
        (("--kv-bytes", "9.75GB", "--speculation", "mtp:1"), (263_641, 1.01, 9_650_995_200, 9_706_143_744)),
        (("--kv-bytes", "10.05GB", "--speculation", "mtp:3"), (263_608, 1.01, 9_971_302_400, 10_027_008_000)),
    ],
)
def test_the_published_pools_hold_what_was_published(
    gearshift: Gearshift, tmp_path: Path, more: tuple[str, ...], figures: tuple[int, float, int, int]
) -> None:
    kv = plan_hybrid(gearshift, tmp_path, *more)["kv"]
    printed = (kv["tokens"], round(kv["concurrency"], 2), kv["min_bytes"], kv["recommended_bytes"])
    assert printed == figures


@pytest.mark.parametrize(
    ("variant", "tokens", "concurrency"), [("nvfp4", 268_170, 1.02), ("mtp-1", 263_641, 1.01), ("mtp-3", 263_608, 1.01)]
)
def test_the_example_of_one_5090_is_planned_as_its_author_measured_it(
    gearshift: Gearshift, tmp_path: Path, variant: str, tokens: int, concurrency: float
) -> None:
    folder = tmp_path / "models/qwen3.8-27b-nvfp4-modelopt"
    folder.mkdir(parents=True)
    write_config(folder, HYBRID)
    ask = ("plan", f"qwen3.8-27b:{variant}", "-c", str(EXAMPLES / "r1-one-5090.yaml"), "--gpu", "RTX 5090", "--json")
    kv = document(gearshift(*ask, env={"HOME": str(tmp_path)}))["kv"]
    assert (kv["tokens"], round(kv["concurrency"], 2), kv["exact"]) == (tokens, concurrency, True)


def test_ranks_on_a_cpu_are_counted_like_those_on_cards(gearshift: Gearshift, tmp_path: Path) -> None:
    alone, named, two = (
        plan_hybrid(gearshift, tmp_path, "--device", "cpu", *ranks)["kv"]["bytes_per_block"]
        for ranks in ((), ("--gpus", "1"), ("--gpus", "2"))
    )
    assert (named, two) == (alone, alone // 2)


def test_two_cards_halve_the_pool_of_each(gearshift: Gearshift, tmp_path: Path) -> None:
    one = plan_hybrid(gearshift, tmp_path)["kv"]
    two = plan_hybrid(gearshift, tmp_path, "--gpus", "2")["kv"]
    assert two["min_bytes"] * 2 == one["min_bytes"]


def test_llama_cpp_plans_a_file_without_tensors(gearshift: Gearshift, tmp_path: Path) -> None:
    weights = str(write_hybrid_gguf(tmp_path / "q.gguf"))
    flags = ("--parallel", "1", "--context", "8192", "--speculation", "mtp:2", "--kv-dtype", "f16", "--json")
    found = document(gearshift("plan", "--engine", "llama.cpp", "--weights", weights, *flags))
    assert (found["kv"]["bytes"], found["kv"]["draft_bytes"]) == (512 * MIB, 32 * MIB)
    assert found["kv"]["bytes_per_token"] == 65_536
    assert found["state"] == {"bytes": 3 * 156_893_184, "rows": 3}
    assert found["kv"]["blocks"] is None
    assert found["fits"] is None


def test_keys_and_values_of_llama_cpp_s_cache_may_differ(gearshift: Gearshift, tmp_path: Path) -> None:
    weights = str(write_hybrid_gguf(tmp_path / "q.gguf"))
    flags = ("--parallel", "4", "--context", "32K", "--kv-dtype", "q8_0,q4_0", "--ubatch", "256", "--split", "tensor")
    found = document(gearshift("plan", "--engine", "llama.cpp", "--weights", weights, *flags, "--gpus", "2", "--json"))
    assert found["kv"]["bytes_per_token"] == 16 * 4 * 256 * (34 + 18) // 32
    assert (found["kv"]["streams"], found["context"]) == (4, 8192)


def test_a_ceiling_needs_an_acceptance_to_be_a_rate(gearshift: Gearshift, tmp_path: Path) -> None:
    flags = (*FLAGS, "--weights", str(write_hybrid(tmp_path)), "--gpu", "RTX 5090", "--speculation", "mtp:2", "--json")
    without = document(gearshift(*flags, "--context", "32K"))["ceiling"]
    rated = document(gearshift(*flags, "--context", "32K", "--acceptance", "0.8,0.6", "--measured", "100"))["ceiling"]
    assert (without["tok_s"], without["tokens_per_step"], without["measured_share"]) == (None, None, None)
    assert without["terms"] == rated["terms"]
    assert rated["tok_s"] == pytest.approx(2.4 / rated["terms"]["step_s"])
    assert rated["measured_share"] == pytest.approx(100 / rated["tok_s"])


def test_depth_and_batch_make_the_cache_dearer(gearshift: Gearshift, tmp_path: Path) -> None:
    flags = (*FLAGS, "--weights", str(write_hybrid(tmp_path)), "--gpu", "RTX 5090", "--context", "32K", "--json")
    deep = document(gearshift(*flags, "--depth", "32K", "--batch", "4"))["ceiling"]["terms"]
    assert deep["kv_s"] == pytest.approx(4 * 32_768 * 16 * 2 * 4 * 256 / 1792e9)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "name a VARIANT of the configuration, or give --engine and --weights"),
        (("--engine", "vllm"), "name a VARIANT"),
        (("--engine", "vllm", "--weights", "/nowhere"), "there is no /nowhere"),
        (("--engine", "vllm", "--weights", "CONFIG", "--ubatch", "64"), "vllm has no --ubatch"),
        (("--engine", "llama.cpp", "--weights", "GGUF", "--prefix-caching", "on"), "llama.cpp has no --prefix-caching"),
        (("--engine", "llama.cpp", "--weights", "GGUF", "--kv-dtype", "fp8"), "'fp8' is no llama.cpp cache type"),
        (("--engine", "llama.cpp", "--weights", "BROKEN"), "not a GGUF file"),
        (("--engine", "llama.cpp", "--weights", "CONFIG"), "llama.cpp loads GGUF files"),
        (("--engine", "vllm", "--weights", "CONFIG", "--gpu", "RTX 1"), "'RTX 1' is no known card"),
        (("--engine", "vllm", "--weights", "CONFIG", "--speculation", "mtp:0"), "'mtp:0' drafts no tokens"),
        (("--engine", "vllm", "--weights", "CONFIG", "--acceptance", "0.5"), "1 acceptance rates are given"),
        (("--engine", "vllm", "--weights", "CONFIG", "--context", "0"), "a context of no tokens"),
        (("--engine", "vllm", "--weights", "CONFIG", "--config", "x"), "--config goes with a VARIANT"),
        (
            ("--engine", "llama.cpp", "--weights", "GGUF", "--device", "cpu", "--gpus", "2"),
            "--gpus above 1 goes with --device cuda",
        ),
        (("--engine", "vllm", "--weights", "CONFIG", "--kv-dtype", "q8_0"), "'q8_0' is no vLLM cache type"),
        (("--engine", "vllm", "--weights", "CONFIG", "--engine-version", "latest"), "'latest' is no version of vLLM"),
        (("qwen:int4",), "there is no configuration here that could have qwen:int4"),
        (("qwen:int4", "--engine", "vllm"), "--engine is the configuration's to say for qwen:int4"),
    ],
)
def test_a_wrong_question_is_exit_status_2(
    gearshift: Gearshift, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], complaint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.gguf").write_bytes(b"nothing")
    files = {"CONFIG": write_config(tmp_path, DENSE), "GGUF": write_hybrid_gguf(tmp_path / "q.gguf")}
    files |= {"BROKEN": tmp_path / "broken.gguf"}
    result = gearshift(
        "plan", *(str(files.get(argument, argument)) for argument in arguments), env={"HOME": "/nowhere"}
    )
    assert result.exit_code == 2
    assert complaint in re.sub(r"\s+", " ", result.stderr)
    assert result.stdout == ""


def test_weights_that_are_not_here_yet_are_planned_by_their_size(gearshift: Gearshift, tmp_path: Path) -> None:
    found = plan_hybrid(gearshift, tmp_path, "--kv-bytes", "auto", "--gpu", "5090", "--weights-size", "19.8GiB")
    assert found["fits"] is True
    (weights,) = (line for line in found["ledger"][0]["lines"] if line["name"] == "weights")
    assert (weights["bytes"], weights["kind"]) == (int(19.8 * 2**30), "modelled")
    assert found["ceiling"]["tok_s"] is None
    assert plan_hybrid(gearshift, tmp_path, "--kv-bytes", "auto", "--gpu", "5090")["fits"] is None


def test_a_size_given_for_weights_that_are_here_is_a_usage_error(gearshift: Gearshift, tmp_path: Path) -> None:
    answer = gearshift(*FLAGS, "--weights", str(write_hybrid(tmp_path)), "--weights-size", "19GiB")
    assert answer.exit_code == 2
    assert "the headers of these say how large they are" in answer.stderr


def test_a_model_of_the_hub_is_no_path_and_the_error_says_what_is(gearshift: Gearshift) -> None:
    answer = gearshift(*FLAGS, "--weights", "nvidia/Qwen3.6-27B-NVFP4")
    assert answer.exit_code == 2
    assert "fetch its config.json" in answer.stderr
    assert "--weights-size" in answer.stderr


def test_a_plan_without_a_version_says_whose_rules_it_took(gearshift: Gearshift, tmp_path: Path) -> None:
    answer = gearshift("plan", "--engine", "vllm", "--weights", str(write_hybrid(tmp_path)), "--gpu", "5090")
    assert "on vllm 0.33, the newest known, 262,144 tokens" in " ".join(answer.stdout.split())


def test_slots_apart_say_that_each_has_its_part_of_the_context(gearshift: Gearshift, tmp_path: Path) -> None:
    flags = (
        "--weights",
        str(write_hybrid_gguf(tmp_path / "q.gguf")),
        "--gpu",
        "5090",
        "--context",
        "8192",
        "--parallel",
        "4",
    )
    answer = gearshift("plan", "--engine", "llama.cpp", *flags)
    assert "llama.cpp, 2,048 tokens in each of 4 slots" in " ".join(answer.stdout.split())
