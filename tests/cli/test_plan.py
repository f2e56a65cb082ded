"""`plan` as it is typed and printed: both forms, the document other programs read, the exit statuses."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from inline_snapshot import snapshot

from advice.plan_models import DENSE, HYBRID, write_config, write_hybrid, write_hybrid_gguf
from fakes.admin import FakeAdmin
from fakes.terminal import on_terminal
from gearshift.domain.units import GIB, MIB
from gearshift.store import CellRecord, ExperimentRecord, open_store

Gearshift = Callable[..., Result]
EXAMPLES = Path(__file__).parents[2] / "examples"
FLAGS = ("plan", "--engine", "vllm", "--engine-version", "0.27.1", "--kv-dtype", "fp8", "--max-num-seqs", "1")
CONFIG = """\
models:
  qwen:
    aliases: [q]
    variants:
      int4:
        engine: vllm==0.27.1
        weights: {weights}
        context: 65536
        kv_dtype: fp8
        kv_bytes: auto
        parallel: 4
      script: {{engine: command, command: [serve], memory: 30GiB}}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "gearshift.yaml"
    path.write_text(CONFIG.format(weights=write_hybrid(tmp_path)))
    return path


def document(result: Result, status: int = 0) -> dict[str, Any]:
    assert (result.exit_code, result.stderr) == (status, "")
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def plan_hybrid(gearshift: Gearshift, folder: Path, *more: str, status: int = 0) -> dict[str, Any]:
    """The published readings' model, in a pool of a 27B hybrid with prefix caching and fp8 KV."""
    weights = write_config(folder, HYBRID)
    flags = ("--weights", str(weights), "--context", "262144", "--prefix-caching", "on", "--json")
    return document(gearshift(*FLAGS, *flags, *more), status)


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
                {"name": "context", "change": "context 8192 -> 4096", "freed_bytes": 94371840},
            ],
        }
    )


def test_a_reading_short_of_288_tokens_is_refused(gearshift: Gearshift, tmp_path: Path) -> None:
    found = plan_hybrid(gearshift, tmp_path, "--kv-bytes", "8939000000", status=1)
    assert found["fits"] is False
    assert found["refusals"] == snapshot(
        [
            (
                "one request of 262144 tokens needs 8.33 GiB of KV cache, more than the 8.33 GiB available; "
                "the longest that fits is 261856 tokens (short by 1158976 bytes)"
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


@pytest.mark.parametrize("width", [60, 80, 120])
def test_what_a_person_sees_is_as_wide_as_the_terminal(gearshift: Gearshift, tmp_path: Path, width: int) -> None:
    flags = ("--weights", str(write_hybrid(tmp_path)), "--gpu", "RTX 3090", "--context", "65536", "--kv-bytes", "auto")
    printed = gearshift(*FLAGS, *flags, "--speculation", "mtp:3", env={"COLUMNS": str(width)})
    assert printed.exit_code == 0
    shown = {
        60: snapshot("""\
fits: hybrid on vllm 0.27.1, 65,536 tokens

gpu0: 22.4 GiB of 24 GiB
█████████████████████████████████████████████▓▒░░▓▓▓▓▓▓▓····
  █  weights          18.2 GiB  exact
  ▓  cuda context      410 MiB  modelled +- 205 MiB
  ▒  libraries         256 MiB  modelled +- 205 MiB
  ░  peak activation   614 MiB  modelled +- 307 MiB
  █  cuda graphs       205 MiB  modelled +- 205 MiB
  ▓  kv pool           2.8 GiB  exact
  ·  free             1.56 GiB  +- 922 MiB in all

cache
  blocks       1,600 tokens, 55,705,600 bytes each (exact)
  one request  53 blocks; least pool 2,952,396,800 bytes,
               safe 3,008,102,400
  pool         3,008,102,400 bytes a device, 54 blocks
  which holds  66,772 tokens, 1.02x; longest context 67,200

what would fit
                               1 device  2 of these
  fits                              yes         yes
  longest context                67,200     153,600
  at once, 65,536 tokens each         1           1
  at once, 8,192 tokens each          1           1

what frees most on a device
  1.39 GiB  mtp off
  1.04 GiB  context 65536 -> 32768

ceiling at depth 0, batch 1: 34.6 tok/s with no draft
accepted, 138.2 with all (--acceptance says which)
  a step takes 28.94 ms, bound by weights: weights 60%,
  state 3%, draft 38%
  RTX 3090: 936 GB/s (servcalc 0.1.0 (MIT): vendor data
  sheets, dense)
  measured: nothing yet (--measured TOK/S shows its share)
"""),
        80: snapshot("""\
fits: hybrid on vllm 0.27.1, 65,536 tokens

gpu0: 22.4 GiB of 24 GiB
█████████████████████████████████████████████████████████████▓▒░░▓▓▓▓▓▓▓▓▓▓·····
  █  weights          18.2 GiB  exact
  ▓  cuda context      410 MiB  modelled +- 205 MiB
  ▒  libraries         256 MiB  modelled +- 205 MiB
  ░  peak activation   614 MiB  modelled +- 307 MiB
  █  cuda graphs       205 MiB  modelled +- 205 MiB
  ▓  kv pool           2.8 GiB  exact
  ·  free             1.56 GiB  +- 922 MiB in all

cache
  blocks       1,600 tokens, 55,705,600 bytes each (exact)
  one request  53 blocks; least pool 2,952,396,800 bytes, safe 3,008,102,400
  pool         3,008,102,400 bytes a device, 54 blocks
  which holds  66,772 tokens, 1.02x; longest context 67,200

what would fit
                               1 device  2 of these
  fits                              yes         yes
  longest context                67,200     153,600
  at once, 65,536 tokens each         1           1
  at once, 8,192 tokens each          1           1

what frees most on a device
  1.39 GiB  mtp off
  1.04 GiB  context 65536 -> 32768

ceiling at depth 0, batch 1: 34.6 tok/s with no draft accepted, 138.2 with all
(--acceptance says which)
  a step takes 28.94 ms, bound by weights: weights 60%, state 3%, draft 38%
  RTX 3090: 936 GB/s (servcalc 0.1.0 (MIT): vendor data sheets, dense)
  measured: nothing yet (--measured TOK/S shows its share)
"""),
        120: snapshot("""\
fits: hybrid on vllm 0.27.1, 65,536 tokens

gpu0: 22.4 GiB of 24 GiB
████████████████████████████████████████████████████████████████████████████▓▒▒░░█▓▓▓▓▓▓▓▓▓▓▓▓······
  █  weights          18.2 GiB  exact
  ▓  cuda context      410 MiB  modelled +- 205 MiB
  ▒  libraries         256 MiB  modelled +- 205 MiB
  ░  peak activation   614 MiB  modelled +- 307 MiB
  █  cuda graphs       205 MiB  modelled +- 205 MiB
  ▓  kv pool           2.8 GiB  exact
  ·  free             1.56 GiB  +- 922 MiB in all

cache
  blocks       1,600 tokens, 55,705,600 bytes each (exact)
  one request  53 blocks; least pool 2,952,396,800 bytes, safe 3,008,102,400
  pool         3,008,102,400 bytes a device, 54 blocks
  which holds  66,772 tokens, 1.02x; longest context 67,200

what would fit
                               1 device  2 of these
  fits                              yes         yes
  longest context                67,200     153,600
  at once, 65,536 tokens each         1           1
  at once, 8,192 tokens each          1           1

what frees most on a device
  1.39 GiB  mtp off
  1.04 GiB  context 65536 -> 32768

ceiling at depth 0, batch 1: 34.6 tok/s with no draft accepted, 138.2 with all (--acceptance says
which)
  a step takes 28.94 ms, bound by weights: weights 60%, state 3%, draft 38%
  RTX 3090: 936 GB/s (servcalc 0.1.0 (MIT): vendor data sheets, dense)
  measured: nothing yet (--measured TOK/S shows its share)
"""),
    }
    assert printed.stdout == shown[width]
    assert max(map(len, printed.stdout.splitlines())) <= width


def test_a_length_that_memory_does_not_bound_is_said_to_be_the_models(gearshift: Gearshift, tmp_path: Path) -> None:
    weights = str(write_config(tmp_path, DENSE))
    printed = gearshift(*FLAGS, "--weights", weights, "--kv-bytes", "1GiB", "--gpu", "RTX 3090", env={"COLUMNS": "100"})
    assert "longest context 8,192 (trained length)" in printed.stdout
    small = gearshift(*FLAGS, "--weights", weights, "--kv-bytes", "50MB", "--gpu", "RTX 3090", env={"COLUMNS": "100"})
    assert "trained length" not in small.stdout


def test_colour_is_for_terminals_only(gearshift: Gearshift, tmp_path: Path) -> None:
    flags = (*FLAGS, "--weights", str(write_config(tmp_path, HYBRID)))
    assert "\x1b" not in gearshift(*flags, env={"NO_COLOR": ""}).stdout


def test_llama_cpp_s_caches_are_told_in_words(gearshift: Gearshift, tmp_path: Path) -> None:
    weights = str(write_hybrid_gguf(tmp_path / "q.gguf"))
    flags = ("--gpu", "RTX 3090", "--gpus", "2", "--context", "131072", "--kv-dtype", "q8_0", "--speculation", "mtp:3")
    printed = gearshift("plan", "--engine", "llama.cpp", "--weights", weights, *flags)
    assert printed.stdout == snapshot("""\
cannot be told (the weights are not here): q.gguf on llama.cpp, 131,072 tokens

gpu0: 5.74 GiB of 24 GiB
███████▓▓▓▓▒▒░█████·····························································
  █  kv cache         2.12 GiB  exact
  ▓  recurrent state  1.22 GiB  exact
  ▒  compute           644 MiB  modelled +- 322 MiB
  ░  driver            300 MiB  modelled +- 150 MiB
  █  fill reserve     1.48 GiB  modelled
  ·  free             18.3 GiB  +- 472 MiB in all

gpu1: 6.76 GiB of 24 GiB
███████▓▓▒▒▒░░░██▓▒▒▒▒▒·························································
  █  kv cache         2.12 GiB  exact
  ▓  draft kv cache    512 MiB  exact
  ▒  recurrent state  1.12 GiB  exact
  ░  compute           644 MiB  modelled +- 322 MiB
  █  draft compute     634 MiB  modelled +- 317 MiB
  ▓  driver            300 MiB  modelled +- 150 MiB
  ▒  fill reserve     1.48 GiB  modelled
  ·  free             17.2 GiB  +- 789 MiB in all

host memory beside the cards: pinned inputs 1.04 GiB

cache
  attention        4.25 GiB: 131,072 cells, one cache for all slots, 34,816
                   bytes a token
  draft head       512 MiB
  recurrent state  2.34 GiB: 16 rows

what would fit
                                1 device  2 of these
  fits                           unknown     unknown
  longest context                unknown     unknown
  at once, 131,072 tokens each         1           1
  at once, 8,192 tokens each           4           4

what frees most on a device
   2.3 GiB  context 131072 -> 65536
  1.93 GiB  mtp off
  1.36 GiB  kv_dtype q8_0 -> q4_0
   860 MiB  parallel 4 -> 1
   639 MiB  ubatch 512 -> 256

ceiling: unknown, the weights are not here
note: context checkpoints take up to 6.6 GiB of host memory: see -ctxcp and -cms
""")


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


def test_a_variant_of_the_configuration_is_planned_on_a_card_that_is_not_here(
    gearshift: Gearshift, config: Path
) -> None:
    found = document(gearshift("plan", "q:int4", "-c", str(config), "--gpu", "RTX 3090", "--json"))
    assert found["fits"] is True
    assert found["context"] == 65_536
    assert found["ledger"][0]["total_bytes"] == 24 * GIB
    assert found["kv"]["concurrency"] >= 1


def test_a_variant_can_be_planned_in_host_memory(gearshift: Gearshift, config: Path) -> None:
    found = document(gearshift("plan", "qwen:int4", "-c", str(config), "--device", "cpu", "--gpu", "64:50", "--json"))
    assert [(ledger["gpu"], ledger["total_bytes"]) for ledger in found["ledger"]] == [("cpu", 64 * GIB)]
    assert found["ceiling"]["terms"]["weights_s"] == pytest.approx(16_142_796_800 / 50e9)
    assert "kv type" not in [lever["name"] for lever in found["levers"]]


def test_a_variant_can_be_tried_with_other_settings(gearshift: Gearshift, config: Path) -> None:
    flags = ("-c", str(config), "--gpu", "RTX 3090", "--json")
    found = document(gearshift("plan", "qwen", *flags, "--context", "262144"), status=1)
    assert found["context"] == 262_144
    both = document(gearshift("plan", "qwen:int4", *flags, "--context", "262144", "--gpus", "2"))
    assert [ledger["gpu"] for ledger in both["ledger"]] == ["gpu0", "gpu1"]


def test_a_variant_that_declares_its_memory_is_held_against_the_card(gearshift: Gearshift, config: Path) -> None:
    found = document(gearshift("plan", "qwen:script", "-c", str(config), "--gpu", "RTX 3090", "--json"), status=1)
    assert found["ledger"][0]["lines"] == [{"name": "declared", "bytes": 30 * GIB, "kind": "exact", "error_bytes": 0}]
    assert found["rooms"] == []


def fake_box(folder: Path, **contents: object) -> dict[str, str]:
    """Two cards of 24 GiB in this box, and what they hold."""
    control = folder / "cards.json"
    control.write_text(json.dumps(contents))
    return {"GEARSHIFT_FAKE_GPUS": f"2x24GiB@{control}"}


def others(found: dict[str, Any]) -> list[int]:
    (ledger,) = found["ledger"]
    return [line["bytes"] for line in ledger["lines"] if line["name"] == "other processes"]


def test_what_others_hold_of_this_box_is_counted(gearshift: Gearshift, config: Path, tmp_path: Path) -> None:
    env = fake_box(tmp_path, residue={"GPU-fake-0": 2 * GIB})
    found = document(gearshift("plan", "qwen:int4", "-c", str(config), "--gpus", "1", "--json", env=env), status=1)
    assert others(found) == [2 * GIB]
    assert found["refusals"] == snapshot(
        [
            (
                "free memory on GPU-fake-0 (22.00 GiB) is less than the share asked for "
                "(0.92, 22.08 GiB): lower gpu-memory-utilization or free the card"
            )
        ]
    )
    weights = str(tmp_path / "hybrid")
    flags = ("--weights", weights, "--context", "65536", "--kv-bytes", "auto", "--json")
    assert others(document(gearshift(*FLAGS, *flags, env=env), status=1)) == [2 * GIB]


def test_the_running_server_s_own_engines_make_room(
    gearshift: Gearshift, admin: FakeAdmin, config: Path, tmp_path: Path
) -> None:
    engine = next(pid for row in admin.rows.values() for pid in row.pids)
    env = fake_box(tmp_path, held={"GPU-fake-0": {str(engine): 18 * GIB}}, lingering=True)
    found = document(gearshift("plan", "qwen:int4", "-c", str(config), "--gpus", "1", "--json", env=env))
    assert others(found) == []


def test_what_was_measured_of_a_variant_is_held_against_its_ceiling(
    gearshift: Gearshift, config: Path, gearshift_home: Path
) -> None:
    env = {"GEARSHIFT_FAKE_GPUS": "1x24GiB:1000", "COLUMNS": "100"}
    ask = ("plan", "qwen:int4", "-c", str(config))
    before = document(gearshift(*ask, "--json", env=env))["ceiling"]
    assert (before["measured"], before["measured_share"]) == (None, None)
    store = open_store(gearshift_home / "gearshift.db").measurements
    target = {"engine_version": "0.27.1", "provenance": {"variant": "qwen:int4"}}
    number = store.begin_experiment(ExperimentRecord("ladder", 1_790_000_000.0, target, {}))
    figures = {"decode_tok_s": {"median": 30.0}}
    store.add_cell(number, CellRecord("k", "", 1, 4096, valid=True, plan={"output": 0}, figures=figures))
    store.end_experiment(number, ended=1_790_000_060.0, state="done", outcome={})
    after = document(gearshift(*ask, "--json", "--depth", "4096", env=env))["ceiling"]
    assert (after["measured"]["tok_s"], after["measured"]["result"]) == (30, number)
    assert after["measured_share"] == pytest.approx(30 / after["tok_s"])
    shown = gearshift(*ask, env=env).stdout
    assert f"measured: 30.0 tok/s at depth 4,096, batch 1 (result {number} of 2026-09-21, engine 0.27.1)" in shown
    assert f"{after['measured_share']:.0%} of the ceiling there" in " ".join(shown.split())
    elsewhere = document(gearshift(*ask, "--json", "--gpu", "RTX 4090", env=env))["ceiling"]
    assert elsewhere["measured"] is None


def test_a_card_that_no_table_has_is_judged_by_what_its_driver_tells(gearshift: Gearshift, tmp_path: Path) -> None:
    flags = ("--weights", str(write_hybrid(tmp_path)), "--context", "32K", "--json")
    told = document(gearshift(*FLAGS, *flags, env={"GEARSHIFT_FAKE_GPUS": "1x24GiB:1000"}))["ceiling"]
    assert told["terms"]["weights_s"] == pytest.approx(16_142_796_800 / 1000e9)
    assert told["card"]["name"] == "Fake GPU"
    assert "from NVML" in told["card"]["source"]
    silent = document(gearshift(*FLAGS, *flags, env={"GEARSHIFT_FAKE_GPUS": "1x24GiB"}))["ceiling"]
    assert (silent["tok_s"], silent["card"]) == (None, None)


def test_more_cards_than_this_box_has_must_be_named(gearshift: Gearshift, config: Path, tmp_path: Path) -> None:
    result = gearshift("plan", "qwen:int4", "-c", str(config), "--gpus", "3", env=fake_box(tmp_path))
    assert result.exit_code == 2
    assert "this box has 2 GPUs, not 3: name them with --gpu" in result.stderr


def test_an_unknown_variant_names_what_there_is(gearshift: Gearshift, config: Path) -> None:
    result = gearshift("plan", "llama", "-c", str(config))
    assert result.exit_code == 2
    assert "known are: qwen, qwen:int4, qwen:script" in re.sub(r"\s+", " ", result.stderr)


def test_a_terminal_gets_colours_unless_it_asks_for_none(tmp_path: Path) -> None:
    weights = str(write_config(tmp_path, HYBRID))
    command = [sys.executable, "-m", "gearshift", *FLAGS, "--weights", weights, "--gpu", "24:936", "--kv-bytes", "4GiB"]
    with on_terminal(command, os.environ, tmp_path) as terminal:
        assert terminal.end() == 1
    assert "\x1b[1;31mdoes not fit\x1b[0m" in terminal.screen
    assert "\x1b[32m▓" in terminal.screen
    with on_terminal(command, os.environ | {"NO_COLOR": "1"}, tmp_path) as plain:
        assert plain.end() == 1
    assert "\x1b" not in plain.screen
