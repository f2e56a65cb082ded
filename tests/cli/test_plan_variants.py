"""`plan` asked of a variant of the configuration: on this box or another, beside what it holds, with other settings."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from advice.plan_models import write_hybrid
from cli.planning import FLAGS, Gearshift, document
from fakes.admin import FakeAdmin
from gearshift.domain.units import GIB
from gearshift.store import CellRecord, ExperimentRecord, open_store

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
