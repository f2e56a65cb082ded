"""Reading what a running variant is: its process's own words, the files that they name, and the box."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gearshift.advice.provenance_files import FileFacts
from gearshift.advice.recipe import LOCK_FILE, read_lock
from gearshift.artifacts import Promise, hub_cache_folder
from gearshift.domain.device import Device
from gearshift.domain.errors import GearshiftError
from gearshift.domain.provenance import EngineBuild, GpuSettings, Provenance
from gearshift.hardware import gpu_settings, read_hardware

# What llama.cpp, vLLM and the libraries below them read. What a variant sets itself is told whatever its name.
_ENV_PREFIXES = (
    *("CUDA_", "FLASHINFER_", "GGML_", "GOMP_", "HF_", "HIP_", "HSA_", "KMP_", "LD_PRELOAD", "LLAMA_", "MALLOC_"),
    *("MKL_", "NCCL_", "NVIDIA_", "OMP_", "OPENBLAS_", "PYTORCH_", "ROCR_", "TORCH_", "TRITON_", "VK_", "VLLM_"),
)
_SECRET = re.compile(r"KEY|TOKEN(?!S|IZ)|SECRET|PASS|CREDENTIAL|AUTH", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Running:
    """An engine that runs now. ``pid`` None: outside our process tree. ``sets`` names the variant's own variables."""

    variant: str
    engine: EngineBuild
    pid: int | None
    port: int
    sets: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class ProvenanceReader:
    """Reads what is running on this box. One for a server's life: it remembers the files that it has read.

    ``lock_beside`` is the configuration whose lock knows the hashes of large files.
    """

    version: str
    devices: Sequence[Device]
    lock_beside: Path | None
    files: FileFacts = field(default_factory=FileFacts)
    settings: Callable[[], Mapping[str, GpuSettings]] = gpu_settings
    proc: Path = Path("/proc")

    def read(self, running: Running) -> Provenance:
        """Blocking: reads weights that no lock knows. Secrets and home folders are still in it. Never raises."""
        argv, env = self._words(running, "cmdline"), self._words(running, "environ")
        named, folder = (argv or ())[1:], self._folder(running.pid)
        hub = hub_cache_folder(dict(word.partition("=")[::2] for word in env)) if env is not None else None
        return Provenance(
            gearshift=self.version,
            variant=running.variant,
            engine=running.engine,
            argv=argv or None,
            env=dict(_variables(env, running.sets)) if argv and env is not None else None,
            weights=self.files.weights(named, folder, self._pinned(running.variant), hub=hub) if argv else None,
            template_sha256=self.files.template(named, folder, hub=hub) if argv else None,
            hardware=read_hardware(self.devices, self.settings(), proc=self.proc),
        )

    def _words(self, running: Running, file: str) -> tuple[str, ...] | None:
        """The process's command line or environment, its port as ``PORT``; None where it cannot be read.

        Both are empty for a process that has ended and was not waited for.
        """
        try:
            raw = (self.proc / str(running.pid) / file).read_bytes() if running.pid is not None else None
        except OSError:
            return None
        if raw is None:
            return None
        words = raw.removesuffix(b"\0").split(b"\0") if raw else []
        return tuple(without_port(word.decode(errors="replace"), running.port) for word in words)

    def _folder(self, pid: int | None) -> Path:
        """Where the process's relative paths begin."""
        try:
            return (self.proc / str(pid) / "cwd").readlink()
        except OSError:
            return Path("/")

    def _pinned(self, variant: str) -> dict[str, Promise]:
        """What the lock says of the variant's files, by their names; nothing without a lock that can be read."""
        lock = self.lock_beside.parent / LOCK_FILE if self.lock_beside else None
        try:
            recipe = read_lock(lock).recipes.get(variant) if lock and lock.is_file() else None
        except GearshiftError:
            return {}
        groups = recipe.files.values() if recipe else ()
        return {Path(file.name).name: file.promise for group in groups for file in group.files}


def without_port(word: str, port: int) -> str:
    """The word with the port that was picked for this start as ``PORT``; the same digits in a path or name stay."""
    return re.sub(rf"(?<![\w./-]){port}(?![\w.-])", "PORT", word)


def _variables(words: Sequence[str], sets: Collection[str]) -> Iterator[tuple[str, str]]:
    """Variables that engines read; what may be a secret is left out."""
    for word in sorted(words):
        name, _, value = word.partition("=")
        if (name.startswith(_ENV_PREFIXES) or name in sets) and not _SECRET.search(name):
            yield name, value
