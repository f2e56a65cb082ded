"""`gearshift config`: every problem on stderr, data on stdout, exit status 2 for what cannot be used."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from inline_snapshot import snapshot

Gearshift = Callable[..., Result]

GOOD = """\
models:
  echo:
    variants:
      a: {engine: command, command: [serve-echo, --port, "${port}"], memory: 1GiB}
      b: {engine: command, extends: a, max_inflight: 2}
"""
BROKEN = """\
listen: nowhere
models:
  echo:
    variants:
      a: {engine: comand, memory: lots}
"""


@pytest.fixture
def good(tmp_path: Path) -> Path:
    file = tmp_path / "good.yaml"
    file.write_text(GOOD)
    return file


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    file = tmp_path / "broken.yaml"
    file.write_text(BROKEN)
    return file


def test_a_sound_file_is_said_to_be_sound(gearshift: Gearshift, good: Path) -> None:
    result = gearshift("config", "check", str(good))
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"{good}: 2 variants, no errors\n"


def test_every_problem_is_told_with_its_line(gearshift: Gearshift, broken: Path) -> None:
    result = gearshift("config", "check", str(broken))
    lines = result.stderr.splitlines()
    assert (result.exit_code, result.stdout) == (2, "")
    assert [line.split(": ")[1].removeprefix(str(broken)) for line in lines] == snapshot([":1", ":5", ":5"])


def test_problems_as_json_are_a_list_on_stdout(gearshift: Gearshift, broken: Path) -> None:
    result = gearshift("config", "check", str(broken), "--json")
    problems = json.loads(result.stdout)
    assert (result.exit_code, result.stderr) == (2, "")
    assert list(problems[0]) == snapshot(["message", "path", "line", "hint", "severity", "file"])
    assert {problem["file"] for problem in problems} == {str(broken)}


def test_a_gpu_that_is_not_on_this_box_is_a_warning_and_with_strict_an_error(gearshift: Gearshift, good: Path) -> None:
    good.write_text(GOOD.replace("max_inflight: 2", "gpus: [1]"))
    box = {"GEARSHIFT_FAKE_GPUS": "1x24GiB"}
    result = gearshift("config", "check", str(good), env=box)
    assert result.exit_code == 0
    assert "models.echo.variants.b.gpus: GPU 1 is not on this box" in result.stderr
    assert gearshift("config", "check", "--strict", str(good), env=box).exit_code == 2
    assert gearshift("config", "check", "--strict", str(good), env={"GEARSHIFT_FAKE_GPUS": "2x24GiB"}).exit_code == 0


def test_serve_check_is_the_same_check(gearshift: Gearshift, broken: Path, good: Path) -> None:
    assert gearshift("serve", "--check", "-c", str(good)).exit_code == 0
    assert gearshift("serve", "--check", "-c", str(broken)).stderr == gearshift("config", "check", str(broken)).stderr


def test_show_prints_values_with_their_origins(gearshift: Gearshift, good: Path) -> None:
    shown = gearshift("config", "show", str(good))
    assert shown.exit_code == 0
    assert "max_inflight: 2  # good.yaml:5" in shown.stdout
    values = json.loads(gearshift("config", "show", str(good), "--json").stdout)
    assert {"path": "models.echo.variants.b.max_inflight", "value": 2, "origin": "good.yaml:5"} in values


ENGINES = """\
models:
  m:
    variants:
      newest: {engine: llama.cpp, weights: w.gguf}
      pinned: {engine: {kind: llama.cpp, path: bin/llama-server}, weights: w.gguf}
      absent: {engine: {kind: vllm, version: 0.32.0}, weights: w}
      own: {engine: command, command: [serve-echo]}
"""


def test_show_ends_with_the_engine_that_each_variant_would_get(gearshift: Gearshift, tmp_path: Path) -> None:
    file, binary = tmp_path / "engines.yaml", tmp_path / "bin/llama-server"
    file.write_text(ENGINES)
    binary.parent.mkdir()
    binary.write_text('#!/bin/sh\ncase "$1" in --version) echo "version: 11434 (0123abcd)" ;; *) exit 1 ;; esac\n')
    binary.chmod(0o755)
    path = {"PATH": f"{binary.parent}:/usr/bin:/bin"}
    shown = gearshift("config", "show", str(file), env=path).stdout
    assert shown[shown.index("# the engine") :].replace(str(tmp_path), "TMP") == snapshot("""\
# the engine of each variant, as this box would choose it now:
#   m:newest  llama.cpp 11434, your own: TMP/bin/llama-server
#   m:pinned  llama.cpp 11434, your own: TMP/bin/llama-server
#   m:absent  none: vllm 0.32.0 is not installed (gearshift engine install vllm==0.32.0, or give the engine's path)
#   m:own     its own command
""")
    values = json.loads(gearshift("config", "show", str(file), "--json", env=path).stdout)
    found = [value for value in values if value["path"].endswith(".engine.found")]
    assert json.loads(json.dumps(found).replace(str(tmp_path), "TMP")) == snapshot(
        [
            {
                "path": "models.m.variants.newest.engine.found",
                "value": {"engine": "llama.cpp", "version": "11434", "managed": False, "path": "TMP/bin/llama-server"},
                "origin": "this box",
            },
            {
                "path": "models.m.variants.pinned.engine.found",
                "value": {"engine": "llama.cpp", "version": "11434", "managed": False, "path": "TMP/bin/llama-server"},
                "origin": "this box",
            },
            {"path": "models.m.variants.absent.engine.found", "value": None, "origin": "this box"},
            {
                "path": "models.m.variants.own.engine.found",
                "value": {"engine": "command", "version": None, "managed": False, "path": None},
                "origin": "this box",
            },
        ]
    )
    file.write_text(shown)
    assert gearshift("config", "check", str(file), env=path).exit_code == 0


def test_the_schema_is_json_that_describes_the_top_level_keys(gearshift: Gearshift) -> None:
    schema = json.loads(gearshift("config", "schema").stdout)
    assert {"listen", "api_keys", "models"} <= set(schema["properties"])


SWAP = """\
models:
  qwen:
    cmd: llama-server -m /models/q8.gguf --port ${PORT} -c 8192
    ttl: 600
"""


def test_a_llama_swap_file_is_carried_over_and_loads(gearshift: Gearshift, tmp_path: Path) -> None:
    (tmp_path / "swap.yaml").write_text(SWAP)
    out = tmp_path / "gearshift.yaml"
    result = gearshift("config", "import", str(tmp_path / "swap.yaml"), "-o", str(out))
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.splitlines()[-1] == f"wrote {out}"
    assert gearshift("config", "check", str(out)).exit_code == 0


def test_presets_are_told_by_their_name(gearshift: Gearshift, tmp_path: Path) -> None:
    (tmp_path / "models.ini").write_text("[qwen]\nmodel = /models/q8.gguf\nctx-size = 8192\n")
    result = gearshift("config", "import", str(tmp_path / "models.ini"))
    assert (result.exit_code, "/models/q8.gguf" in result.stdout) == (0, True)


def test_an_import_never_replaces_a_file(gearshift: Gearshift, tmp_path: Path) -> None:
    (tmp_path / "swap.yaml").write_text(SWAP)
    out = tmp_path / "gearshift.yaml"
    out.write_text("precious")
    result = gearshift("config", "import", str(tmp_path / "swap.yaml"), "-o", str(out))
    assert (result.exit_code, f"cannot write {out}" in result.stderr) == (1, True)
    assert out.read_text() == "precious"


def test_a_file_that_is_not_there_is_a_configuration_error(gearshift: Gearshift, tmp_path: Path) -> None:
    result = gearshift("config", "check", str(tmp_path / "none.yaml"))
    assert (result.exit_code, "cannot be read" in result.stderr) == (2, True)
