"""`gearshift engine`: what would be run, what is there, what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from inline_snapshot import snapshot

Gearshift = Callable[..., Result]
NO_ENGINES = {"PATH": "/usr/bin:/bin"}


@pytest.mark.parametrize("engine", ["llama.cpp==11434", "vllm==0.32.0"])
def test_a_dry_run_prints_commands_and_runs_none(gearshift: Gearshift, gearshift_home: Path, engine: str) -> None:
    result = gearshift("engine", "install", engine, "--dry-run")
    commands = [line for line in result.stdout.splitlines() if not line.startswith("#")]
    assert result.exit_code == 0
    assert len(commands) > 3
    assert not (gearshift_home / "engines").exists()


def test_cuda_adds_its_build_option(gearshift: Gearshift) -> None:
    plain = gearshift("engine", "install", "llama.cpp", "--dry-run").stdout
    cuda = gearshift("engine", "install", "llama.cpp", "--cuda", "--dry-run").stdout
    assert ("-DGGML_CUDA=ON" in plain, "-DGGML_CUDA=ON" in cuda) == (False, True)


@pytest.mark.parametrize("name", ["ollama", "vllm==", "vllm=0.32", "command"])
def test_what_is_no_engine_is_a_usage_error(gearshift: Gearshift, name: str) -> None:
    result = gearshift("engine", "install", name)
    assert (result.exit_code, f"{name!r} is not an engine" in result.stderr) == (2, True)


def test_without_engines_the_list_is_empty_and_says_how_to_get_one(gearshift: Gearshift) -> None:
    result = gearshift("engine", "list", env=NO_ENGINES)
    assert (result.exit_code, result.stdout, result.stderr) == snapshot(
        (
            0,
            "",
            """\
looking for engines
no engine was found; install one: gearshift engine install llama.cpp
""",
        )
    )
    assert json.loads(gearshift("engine", "list", "--json", env=NO_ENGINES).stdout) == []


def test_an_engine_on_path_is_listed_with_its_version(gearshift: Gearshift, tmp_path: Path) -> None:
    server = tmp_path / "llama-server"
    server.write_text(
        "#!/bin/sh\n"
        'case "$1" in\n'
        "  --version) echo 'version: 11434 (abc1234)' >&2;;\n"
        "  *) echo '-m,    --model FNAME    path'; echo '-c,    --ctx-size N    size';;\n"
        "esac\n"
    )
    server.chmod(0o755)
    rows = json.loads(gearshift("engine", "list", "--json", env={"PATH": f"{tmp_path}:/usr/bin:/bin"}).stdout)
    assert [(row["engine"], row["version"], row["managed"], row["path"]) for row in rows] == [
        ("llama.cpp", "11434", False, str(server))
    ]


def test_remove_wants_a_version(gearshift: Gearshift) -> None:
    result = gearshift("engine", "remove", "vllm")
    assert (result.exit_code, result.stderr) == snapshot(
        (
            1,
            """\
error: which version of vllm?
hint: name it: gearshift engine remove vllm==VERSION; see engine list
""",
        )
    )


def test_removing_what_is_not_there_is_an_error(gearshift: Gearshift) -> None:
    result = gearshift("engine", "remove", "vllm==0.1.0")
    assert (result.exit_code, "is not among the managed engines" in result.stderr) == (1, True)
