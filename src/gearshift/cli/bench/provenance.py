"""What makes a measured variant the same again: versions, argv, environment, hashes, hardware, and its memory."""

from __future__ import annotations

import asyncio
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import gearshift
from gearshift.advice.ledger import ledger_document, read_log
from gearshift.advice.recipe import LOCK_FILE, Recipe, read_lock
from gearshift.artifacts.hashes import Promise, sha256_of
from gearshift.artifacts.templates import model_template, read_template
from gearshift.cli.bench.admin import BenchAdmin
from gearshift.cli.session import Session
from gearshift.domain.device import CPU_DEVICE
from gearshift.domain.errors import GearshiftError
from gearshift.domain.units import GIB
from gearshift.hardware import core_count, host_memory, open_memory
from gearshift.report.redaction import redacted

_HASHED_BYTES = 2 * GIB
_WEIGHTS = {".gguf", ".safetensors"}
_ENV_PREFIXES = ("CUDA_", "GGML_", "HF_", "LLAMA_", "NCCL_", "OMP_", "PYTORCH_", "TORCH_", "VLLM_")
_TEMPLATE_FLAGS = {"--chat-template", "--chat-template-file"}
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS", re.IGNORECASE)
_BUFFERS = ("weights_bytes", "kv_pool_bytes", "state_bytes", "compute_bytes", "graph_bytes")


async def provenance_of(session: Session, admin: BenchAdmin, row: Mapping[str, Any]) -> dict[str, object]:
    """Of the variant in ``row``; what this box cannot see of a remote engine is null.

    Only what stays the same from one start to the next is in it: it is part of a cell's content address.
    """
    local = session.admin.target.socket_path is not None
    pid = row["pids"][0] if local and row["pids"] else None
    argv = _argv(pid, row["port"])
    recipe = _recipe((await admin.get("/status"))["config"], row["variant"]) if local else None
    known = {
        "gearshift": gearshift.__version__,
        "variant": row["variant"],
        "argv": argv or None,
        "env": dict(_env(pid)) if pid else None,
        "weights": await asyncio.to_thread(weights_of, argv, _pinned(recipe)) if argv else None,
        "template_sha256": await asyncio.to_thread(template_of, argv) if argv else None,
        "hardware": await asyncio.to_thread(_hardware, session.env) if local else None,
        "memory": await _memory(admin, row),
    }
    private: dict[str, object] = redacted(known)
    return private


def _argv(pid: int | None, port: int | None) -> list[str]:
    """The engine's command line, with the port that Gearshift picked as ``PORT``."""
    words = _words(pid, "cmdline")
    return ["PORT" if word == str(port) else word for word in words]


def _env(pid: int) -> Iterator[tuple[str, str]]:
    """Variables that engines read; what may be a secret is left out."""
    for word in sorted(_words(pid, "environ")):
        name, _, value = word.partition("=")
        if name.startswith(_ENV_PREFIXES) and not _SECRET.search(name):
            yield name, value


def _words(pid: int | None, file: str) -> list[str]:
    try:
        raw = Path(f"/proc/{pid}/{file}").read_bytes() if pid else b""
    except OSError:
        return []
    return [word.decode(errors="replace") for word in raw.split(b"\0") if word]


def weights_of(argv: Sequence[str], pinned: Mapping[str, Promise]) -> list[dict[str, object]]:
    """Weight files that a command line names, or that lie in a folder it names, each with its size and hash.

    A hash comes from ``pinned`` (by file name) where the size agrees; else small files are read for it, and large ones
    have none: reading them takes longer than many a measurement, and `gearshift lock` does it once.
    """
    files = [file for word in argv[1:] for file in _weight_files(Path(word))]
    return [_weighed(file, pinned.get(file.name)) for file in dict.fromkeys(files)]


def template_of(argv: Sequence[str]) -> str | None:
    """The hash of the chat template in use: of the file that the command line names, else of the model's own."""
    named = [value for flag, value in pairwise(argv) if flag in _TEMPLATE_FLAGS and Path(value).is_file()]
    models = [path for path in map(Path, argv[1:]) if path.suffix == ".gguf" or (path / "config.json").is_file()]
    try:
        template = read_template(Path(named[-1])) if named else next(filter(None, map(model_template, models)), None)
    except GearshiftError:
        return None
    return template.sha256 if template else None


def _weight_files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(path.glob("*.safetensors"))
    return [path] if path.suffix in _WEIGHTS and path.is_file() else []


def _weighed(file: Path, pinned: Promise | None) -> dict[str, object]:
    size = file.stat().st_size
    found = pinned if pinned is not None and pinned.bytes == size else None
    if found is None and size <= _HASHED_BYTES:
        found = sha256_of(file)
    return {"file": str(file), "bytes": size, "sha256": found.sha256 if found else None}


def _recipe(config: str | None, variant: str) -> Recipe | None:
    """The variant's in the lock beside the configuration; None without a lock that can be read."""
    lock = Path(config).parent / LOCK_FILE if config else None
    if lock is None or not lock.is_file():
        return None
    try:
        return read_lock(lock).recipes.get(variant)
    except GearshiftError:
        return None


def _pinned(recipe: Recipe | None) -> dict[str, Promise]:
    """What a lock says of files, by their names."""
    groups = recipe.files.values() if recipe else ()
    return {Path(file.name).name: file.promise for group in groups for file in group.files}


def _hardware(env: Mapping[str, str]) -> dict[str, object]:
    devices = [device for device in open_memory(env).devices() if device.id != CPU_DEVICE]
    return {
        "gpus": [{"name": device.name, "bytes": device.total_bytes} for device in devices],
        "driver": _driver(),
        "cpu": _cpu_name(),
        "cores": core_count(),
        "ram_bytes": host_memory().total_bytes,
        "kernel": platform.release(),
    }


def _driver() -> str | None:
    """NVIDIA's kernel driver in its own words: ``NVRM version: NVIDIA UNIX ... 580.95.05 ...``."""
    try:
        first = Path("/proc/driver/nvidia/version").read_text().partition("\n")[0]
    except OSError:
        return None
    return first.partition(":")[2].strip() or None


def _cpu_name() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None)


async def _memory(admin: BenchAdmin, row: Mapping[str, Any]) -> dict[str, object] | None:
    """Where memory went, by the engine's own start-up log; None where it does not say."""
    try:
        starts = read_log(row["variant"], (await admin.log(row["variant"])).splitlines())
    except GearshiftError:
        return None
    document = ledger_document(starts)
    found = {name: document[name] for name in _BUFFERS if document.get(name)}
    return found or None
