"""Scripted binaries and hand-made packages: what the toolchain runs is real, only small."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import dedent

import pytest

from gearshift.domain.paths import Paths, resolve_paths
from gearshift.toolchain import Toolchain

Script = Callable[[Path, str], Path]
Wheel = Callable[[str, str, Mapping[str, str]], Path]

LLAMA_SERVER = """\
    case "$1" in
      --version) echo "version: 0.6.0-dev (build {build}, commit unknown)" >&2 ;;
      --help) printf -- '-c,    --ctx-size N   size\\n--host HOST   where\\n--port PORT   port\\n' ;;
      *) exit 9 ;;
    esac
    """
API_SERVER = """\
    import argparse
    parser = argparse.ArgumentParser("api_server.py", allow_abbrev=False)
    for name in ("--host", "--port", "--max-model-len"):
        parser.add_argument(name, help=name)
    parser.parse_args(["--help"])
    """


@pytest.fixture
def script() -> Script:
    """Write an executable shell script."""

    def write(path: Path, body: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{dedent(body)}", encoding="utf-8")
        path.chmod(0o755)
        return path

    return write


@pytest.fixture
def llama_server(script: Script) -> Callable[[Path, str], Path]:
    """Write a llama-server that answers --version and --help."""
    return lambda path, build: script(path, dedent(LLAMA_SERVER).replace("{build}", build))


@pytest.fixture
def paths(gearshift_home: Path) -> Paths:
    return resolve_paths({"GEARSHIFT_HOME": str(gearshift_home)})


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    """A folder that is first on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    return folder


@pytest.fixture
def env(tmp_path: Path, bin_folder: Path) -> dict[str, str]:
    """An environment whose pip knows one local folder and no network."""
    index = tmp_path / "index"
    index.mkdir()
    return {
        "PATH": f"{bin_folder}{os.pathsep}/usr/bin{os.pathsep}/bin",
        "HOME": str(tmp_path),
        "CMAKE_BUILD_PARALLEL_LEVEL": "2",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(index),
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


@pytest.fixture
def toolchain(paths: Paths, env: dict[str, str]) -> Toolchain:
    return Toolchain(paths, env)


@pytest.fixture
def wheel(env: dict[str, str]) -> Wheel:
    """Put a wheel into the local index."""

    def make(name: str, version: str, files: Mapping[str, str]) -> Path:
        info = f"{name}-{version}.dist-info"
        path = Path(env["PIP_FIND_LINKS"]) / f"{name}-{version}-py3-none-any.whl"
        metadata = f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n"
        tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        contents = {**files, f"{info}/METADATA": metadata, f"{info}/WHEEL": tags, f"{info}/RECORD": ""}
        with zipfile.ZipFile(path, "w") as archive:
            for member, text in contents.items():
                archive.writestr(member, dedent(text))
        return path

    return make


@pytest.fixture
def vllm_environment(tmp_path: Path) -> Callable[[str, str], Path]:
    """A virtual environment with a vllm that only prints its help, installed as the distribution named."""

    def make(distribution: str, version: str) -> Path:
        folder = tmp_path / f"venv-{distribution}-{version}"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=60)
        (packages,) = folder.glob("lib/python*/site-packages")
        module = packages / "vllm" / "entrypoints" / "openai"
        module.mkdir(parents=True)
        (module / "api_server.py").write_text(dedent(API_SERVER), encoding="utf-8")
        info = packages / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        return folder

    return make
