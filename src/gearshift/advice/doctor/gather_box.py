"""Learning about the box: GPUs, processes, memory, tools. Impure; what it finds is a `Box`."""

from __future__ import annotations

import resource
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from gearshift.advice.doctor.case import Box
from gearshift.advice.doctor.processes import engine_processes, looks_like_engine
from gearshift.advice.doctor.topology import compute_capabilities, peer_access
from gearshift.domain.device import CPU_DEVICE, DeviceMemory
from gearshift.hardware import gpu_settings, host_memory, processes

_TOOLKITS = (Path("/usr/local/cuda"), Path("/opt/cuda"))
_SHM = Path("/dev/shm")  # noqa: S108 - its size is what matters
_TOLD_S = 10.0  # nvidia-smi answers within a second unless a card is lost
_RELEVANT = ("CUDA_", "NCCL_", "VLLM_", "FLASHINFER_", "GGML_", "HF_HUB_OFFLINE", "HIP_")


def gather_box(memory: DeviceMemory, env: Mapping[str, str], *, proc: Path = Path("/proc")) -> Box:
    """Everything the checks ask about this machine. Raises GearshiftError when a GPU's memory cannot be read."""
    devices = memory.devices()
    snapshot = processes.snapshot()
    commands = {pid: processes.command_line(pid) for pid in snapshot}
    engines = [pid for pid, command in commands.items() if looks_like_engine(command)]
    readings = memory.read([device.id for device in devices], engines)
    held = {pid: {name: at.by_pid.get(pid, 0) for name, at in readings.items()} for pid in engines}
    gpus = [device for device in devices if device.id != CPU_DEVICE]
    return Box(
        devices=devices,
        readings=readings,
        peers=peer_access(_told(("nvidia-smi", "topo", "-p2p", "r"), env)) if len(gpus) > 1 else {},
        compute=compute_capabilities(_told(_CAPABILITIES, env)) if gpus else {},
        settings=gpu_settings() if gpus else {},
        memory=host_memory(proc=proc),
        shm_bytes=shutil.disk_usage(_SHM).total if _SHM.is_dir() else None,
        memlock_bytes=_memlock(),
        nvcc=_which("nvcc", env),
        cuda_folder=next((folder for folder in _TOOLKITS if (folder / "bin/nvcc").exists()), None),
        wsl=_is_wsl(proc),
        processes=engine_processes({pid: process.parent for pid, process in snapshot.items()}, commands, held),
        env={name: value for name, value in env.items() if name.startswith(_RELEVANT)},
    )


_CAPABILITIES = ("nvidia-smi", "--query-gpu=uuid,compute_cap", "--format=csv,noheader")


def _told(argv: Sequence[str], env: Mapping[str, str]) -> str:
    """What a tool prints; "" where it is not there or does not work, which the checks take for unknown."""
    tool = _which(argv[0], env)
    if tool is None:
        return ""
    try:
        done = subprocess.run(
            (str(tool), *argv[1:]), stdin=subprocess.DEVNULL, capture_output=True, timeout=_TOLD_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""


def _which(name: str, env: Mapping[str, str]) -> Path | None:
    found = shutil.which(name, path=env.get("PATH"))
    return Path(found) if found else None


def _memlock() -> int | None:
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return None if soft == resource.RLIM_INFINITY else soft


def _is_wsl(proc: Path) -> bool:
    try:
        return "microsoft" in (proc / "sys/kernel/osrelease").read_text().lower()
    except OSError:
        return False
