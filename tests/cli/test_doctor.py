"""`gearshift doctor`: whole outputs, and the exit status that says the worst."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from inline_snapshot import snapshot

Gearshift = Callable[..., Result]

CONFIG = """\
listen: 127.0.0.1:8888
models:
  qwen:
    aliases: [q]
    variants:
      int8:
        engine: {kind: vllm, path: vllm}
        weights: org/int8
        context: 32768
        gpus: [0, 1]
        parallel: 2
        args: {revision: abc, disable-custom-all-reduce: true}
      echo: {engine: command, command: [serve-echo, --port, "${port}"], memory: 1GiB}
"""
SMI = """\
#!/bin/sh
case "$1" in
  topo) printf '\\tGPU0\\tGPU1\\n GPU0\\tX\\tCNS\\n GPU1\\tCNS\\tX\\n' ;;
  *) printf 'GPU-fake-0, 8.6\\nGPU-fake-1, 8.6\\n' ;;
esac
"""


@pytest.fixture
def box(tmp_path: Path) -> dict[str, str]:
    """The environment of a box with two cards without peer access and no engine on PATH."""
    smi = tmp_path / "bin/nvidia-smi"
    smi.parent.mkdir()
    smi.write_text(SMI)
    smi.chmod(0o755)
    return {"GEARSHIFT_FAKE_GPUS": "2x24GiB", "PATH": f"{smi.parent}:/bin", "HF_HUB_CACHE": str(tmp_path / "hub")}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "gearshift.yaml"
    file.write_text(CONFIG)
    return file


def of_variant(findings: list[dict[str, str]]) -> list[dict[str, str]]:
    """Without what is said of the box that runs the tests: its memory limit, its engines, its shared memory."""
    return [finding for finding in findings if "models." in finding["place"] and finding["id"] != "shm-small"]


def test_what_is_wrong_is_told_with_reason_way_out_and_link(
    gearshift: Gearshift, config: Path, box: dict[str, str]
) -> None:
    result = gearshift("doctor", "qwen:int8", "-c", str(config), env=box)
    told = result.stdout.replace(str(config.parent), "")
    assert result.exit_code == 1
    assert [
        block for block in told.rstrip("\n").split("\n\n") if "models." in block and "shm-small" not in block
    ] == snapshot(
        [
            """\
error  engine-missing  /gearshift.yaml:7: models.qwen.variants.int8.engine
  the vllm path /vllm does not exist
  why: The variant cannot be started.
  fix: correct the engine's path in the configuration
  see: docs/engines.md\
""",
            """\
error  p2p-missing  /gearshift.yaml:6: models.qwen.variants.int8.env
  GPUs 0 and 1 have no peer access; not set: NCCL_P2P_DISABLE=1
  why: Both paths wait for memory of the other card that never comes: the start hangs without an error.
  fix: write env: {NCCL_P2P_DISABLE: "1"} and args: {disable-custom-all-reduce: true}
  see: https://github.com/vllm-project/vllm/issues/51513\
""",
            """\
note  hub-not-fetched  /gearshift.yaml:8: models.qwen.variants.int8.weights
  org/int8 is not in the hub's cache
  why: The first start downloads them within its load timeout, and what their files say could not be checked.
  fix: fetch them before: gearshift lock, then gearshift pull
  see: docs/recipes.md\
""",
            """\
note  nccl-cumem  /gearshift.yaml:6: models.qwen.variants.int8.env
  NCCL_CUMEM_ENABLE is not 0
  why: NCCL may map buffers between cards that cannot reach each other; the boxes that work set it to 0.
  fix: write env: {NCCL_CUMEM_ENABLE: "0"}
  see: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-cumem-enable\
""",
        ]
    )


def test_findings_as_json_have_the_promised_keys(gearshift: Gearshift, config: Path, box: dict[str, str]) -> None:
    findings = json.loads(gearshift("doctor", "q:int8", "-c", str(config), "--json", env=box).stdout)
    assert {tuple(finding) for finding in findings} == {("id", "severity", "what", "why", "fix", "link", "place")}
    assert [finding["id"] for finding in of_variant(findings)] == snapshot(
        ["engine-missing", "p2p-missing", "hub-not-fetched", "nccl-cumem"]
    )


def test_a_sound_variant_has_no_findings(gearshift: Gearshift, config: Path, box: dict[str, str]) -> None:
    result = gearshift("doctor", "qwen:echo", "-c", str(config), "--json", env=box)
    assert of_variant(json.loads(result.stdout)) == []
    assert "about 1 variant and this box" in result.stderr


def test_without_a_configuration_the_box_alone_is_judged(
    gearshift: Gearshift, box: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = gearshift("doctor", env=box | {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)})
    assert result.stderr.endswith(" about this box\n")
    assert "models." not in result.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("qwen:int9",), "Error: there is no variant qwen:int9 (known: qwen:int8, qwen:echo)"),
        (("qwen:int8", "--recipe", "x"), "Error: give a VARIANT or --recipe, not both"),
        (
            ("--recipe", "/nowhere/x.recipe"),
            "Error: /nowhere/x.recipe cannot be read: No such file or directory (write one: gearshift lock)",
        ),
    ],
)
def test_wrong_usage_is_status_two(
    gearshift: Gearshift, config: Path, box: dict[str, str], arguments: tuple[str, ...], said: str
) -> None:
    result = gearshift("doctor", *arguments, "-c", str(config), env=box)
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (2, said)


@pytest.mark.parametrize("name", ["x.recipe", "gearshift.lock"])
def test_a_lock_that_is_none_is_status_two(gearshift: Gearshift, config: Path, box: dict[str, str], name: str) -> None:
    (config.parent / name).write_text("no lock")
    asked = ("--recipe", str(config.parent / name)) if name == "x.recipe" else ()
    result = gearshift("doctor", *asked, "-c", str(config), "--json", env=box)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{config.parent / name} is no lock" in result.stderr


def test_a_configuration_that_cannot_be_used_is_status_two(
    gearshift: Gearshift, config: Path, box: dict[str, str]
) -> None:
    config.write_text("listen: nowhere\n")
    assert gearshift("doctor", "-c", str(config), env=box).exit_code == 2


def test_a_recipe_from_elsewhere_is_judged_before_it_is_fetched(
    gearshift: Gearshift, box: dict[str, str], tmp_path: Path
) -> None:
    files = [{"name": "m.gguf", "bytes": 5, "sha256": "0" * 64}]
    recipe = {
        "settings": {
            "engine": {"kind": "llama.cpp", "version": "11434"},
            "weights": "models/m/m.gguf",
            "context": 8192,
            "args": {"split-mode": "row"},
            "env": {"HF_TOKEN": "${env:HF_TOKEN}"},
        },
        "engine": {"kind": "llama.cpp", "version": "11434"},
        "files": {"weights": {"folder": "models/m", "files": files}},
    }
    (tmp_path / "x.recipe").write_text(json.dumps({"recipes": {"m:q8": recipe}}))
    result = gearshift("doctor", "--recipe", str(tmp_path / "x.recipe"), "--json", env=box)
    found = {finding["id"]: finding["place"] for finding in of_variant(json.loads(result.stdout))}
    assert result.exit_code == 1
    assert found == snapshot(
        {
            "engine-missing": "models.m.variants.q8.engine",
            "llamacpp-row-split": "models.m.variants.q8.args.split-mode",
            "pin-files": "models.m.variants.q8.weights",
        }
    )


def test_a_finding_of_several_variants_names_each_place_on_a_line_of_its_own(
    gearshift: Gearshift, box: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    twice = CONFIG.replace("      echo:", "      other: {extends: int8}\n      echo:")
    (tmp_path / "gearshift.yaml").write_text(twice)
    monkeypatch.chdir(tmp_path)
    told = gearshift("doctor", "-c", str(tmp_path / "gearshift.yaml"), env=box).stdout
    (block,) = (part for part in told.split("\n\n") if part.startswith("note  hub-not-fetched"))
    lines = block.splitlines()
    assert lines[0] == "note  hub-not-fetched  in 2 places"
    assert [line for line in lines if line.startswith("  at: ")] == [
        "  at: gearshift.yaml:8: models.qwen.variants.int8.weights",
        "  at: gearshift.yaml:8: models.qwen.variants.other.weights",
    ]
