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
from gearshift.artifacts.hashes import sha256_of
from gearshift.cli.bench.admin import BenchAdmin
from gearshift.cli.session import Session
from gearshift.domain.device import CPU_DEVICE
from gearshift.domain.errors import GearshiftError
from gearshift.domain.units import GIB
from gearshift.hardware import core_count, host_memory, open_memory

_HASHED_BYTES = 8 * GIB  # above it, hashing takes longer than many a measurement; `gearshift lock` does it once
_WEIGHTS = ("-m", "--model", "-md", "--model-draft", "--mmproj")
_ENV_PREFIXES = ("CUDA_", "GGML_", "HF_", "LLAMA_", "NCCL_", "OMP_", "PYTORCH_", "TORCH_", "VLLM_")
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS", re.IGNORECASE)
_BUFFERS = ("weights_bytes", "kv_pool_bytes", "state_bytes", "compute_bytes", "graph_bytes")


async def provenance_of(session: Session, admin: BenchAdmin, row: Mapping[str, Any]) -> dict[str, object]:
    """Of the variant in ``row``; what this box cannot see of a remote engine is null.

    Only what stays the same from one start to the next is in it: it is part of a cell's content address.
    """
    local = session.admin.target.socket_path is not None
    pid = row["pids"][0] if local and row["pids"] else None
    argv = _argv(pid, row["port"])
    home = session.env.get("HOME", "")
    return {
        "gearshift": gearshift.__version__,
        "variant": row["variant"],
        "argv": [_private(word, home) for word in argv] if argv else None,
        "env": {name: _private(value, home) for name, value in _env(pid)} if pid else None,
        "weights": await asyncio.to_thread(_weights, argv, home) if argv else None,
        "hardware": await asyncio.to_thread(_hardware, session.env) if local else None,
        "memory": await _memory(admin, row),
    }


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


def _weights(argv: Sequence[str], home: str) -> list[dict[str, object]]:
    """Files named in the command line, with size and hash."""
    found = []
    for flag, value in pairwise(argv):
        path = Path(value)
        if flag in _WEIGHTS and path.is_file():
            size = path.stat().st_size
            digest = sha256_of(path).sha256 if size <= _HASHED_BYTES else None
            found.append({"file": _private(value, home), "bytes": size, "sha256": digest})
    return found


def _hardware(env: Mapping[str, str]) -> dict[str, object]:
    devices = [device for device in open_memory(env).devices() if device.id != CPU_DEVICE]
    return {
        "gpus": [{"name": device.name, "bytes": device.total_bytes} for device in devices],
        "cpu": _cpu_name(),
        "cores": core_count(),
        "ram_bytes": host_memory().total_bytes,
        "kernel": platform.release(),
    }


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


def _private(text: str, home: str) -> str:
    """Without the name of the home folder."""
    return text.replace(home, "~") if len(home) > 1 else text
