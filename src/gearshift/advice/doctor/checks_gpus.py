"""Checks of what vLLM on one or several GPUs needs from the box."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from gearshift.advice.doctor.case import Case
from gearshift.advice.doctor.check import Check, Registered
from gearshift.advice.doctor.finding import Sighting
from gearshift.domain.units import MIB, format_bytes

GPUS: list[Check[Case]] = []
_check = Registered(GPUS).add

_P2P_THREAD = "https://github.com/vllm-project/vllm/issues/51513"
_JIT_THREAD = "https://github.com/vllm-project/vllm/issues/49497"
_ENOUGH_SHM = 512 * MIB  # NCCL's buffers between two ranks take tens of MiB; Docker gives 64 MiB to everything


def _cut_off(case: Case) -> tuple[int, int] | None:
    """The first pair of the variant's GPUs that cannot read each other's memory; None = none, or unknown."""
    indices = sorted(gpu.index for gpu in case.gpus if gpu.index is not None)
    return next((pair for pair in combinations(indices, 2) if case.box.peers.get(pair) is False), None)


def _ranks(case: Case) -> bool:
    return case.kind == "vllm" and len(case.gpus) > 1


@_check(
    "gpu-absent",
    "error",
    "GPUs that a variant names and this box does not have",
    why="The variant cannot be placed.",
    fix="name GPUs as nvidia-smi -L lists them, or leave gpus: out",
    link="docs/configuration.md",
)
def _gpu_absent(case: Case) -> Iterator[Sighting]:
    here = {name for gpu in case.box.gpus for name in (gpu.index, gpu.id)}
    for gpu in case.variant.gpus or ():
        if gpu not in here:
            yield Sighting(f"GPU {gpu} is not on this box", "gpus")


@_check(
    "p2p-missing",
    "error",
    "vLLM on GPUs without peer access, without NCCL_P2P_DISABLE=1 and disable-custom-all-reduce",
    why="Both paths wait for memory of the other card that never comes: the start hangs without an error.",
    fix='write env: {NCCL_P2P_DISABLE: "1"} and args: {disable-custom-all-reduce: true}',
    link=_P2P_THREAD,
)
def _p2p_missing(case: Case) -> Iterator[Sighting]:
    pair = _cut_off(case) if _ranks(case) else None
    missing = []
    if case.env.get("NCCL_P2P_DISABLE") != "1":
        missing.append("NCCL_P2P_DISABLE=1")
    if not case.on("disable-custom-all-reduce"):
        missing.append("disable-custom-all-reduce")
    if pair and missing:
        yield Sighting(f"GPUs {pair[0]} and {pair[1]} have no peer access; not set: {', '.join(missing)}", "env")


@_check(
    "nccl-cumem",
    "note",
    "vLLM on GPUs without peer access, with NCCL_CUMEM_ENABLE left to NCCL",
    why="NCCL may map buffers between cards that cannot reach each other; the boxes that work set it to 0.",
    fix='write env: {NCCL_CUMEM_ENABLE: "0"}',
    link="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-cumem-enable",
)
def _nccl_cumem(case: Case) -> Iterator[Sighting]:
    if _ranks(case) and _cut_off(case) and case.env.get("NCCL_CUMEM_ENABLE") != "0":
        yield Sighting("NCCL_CUMEM_ENABLE is not 0", "env")


@_check(
    "shm-small",
    "warning",
    "vLLM on several GPUs with a small /dev/shm",
    why="Ranks talk through shared memory; with 64 MiB, a container's default, NCCL fails or dies of a bus error.",
    fix="start the container with --ipc=host or --shm-size=8g",
    link="https://docs.vllm.ai/en/latest/deployment/docker.html",
)
def _shm_small(case: Case) -> Iterator[Sighting]:
    shm = case.box.shm_bytes
    if _ranks(case) and shm is not None and shm < _ENOUGH_SHM:
        yield Sighting(f"shared memory holds {format_bytes(shm)}", "env")


@_check(
    "nvcc-missing",
    "warning",
    "FlashInfer or NVFP4 in vLLM without a CUDA compiler on PATH, or without CUDA_HOME",
    why="FlashInfer compiles kernels at the first start; without the toolkit in sight the start fails.",
    fix="install the CUDA toolkit and set CUDA_HOME and PATH in the variant's env, or avoid FlashInfer's sampler "
    "with VLLM_USE_FLASHINFER_SAMPLER=0",
    link=_JIT_THREAD,
)
def _nvcc_missing(case: Case) -> Iterator[Sighting]:
    if not (case.kind == "vllm" and case.gpus and (reason := _compiles(case))):
        return
    home, folder = case.env.get("CUDA_HOME"), case.box.cuda_folder
    if case.box.nvcc is None and not home:
        known = f", though a toolkit is at {folder}" if folder else ""
        yield Sighting(f"{reason} compiles kernels: nvcc is not on PATH, CUDA_HOME is not set{known}", "env")
    elif not home:
        yield Sighting(f"{reason} compiles kernels: nvcc is there, CUDA_HOME is not set", "env")


def _compiles(case: Case) -> str | None:
    """What would make FlashInfer compile; None = nothing that is known here."""
    if str(case.arg("attention-backend") or "").upper().startswith("FLASHINFER"):
        return "attention-backend FLASHINFER"
    if case.env.get("VLLM_USE_FLASHINFER_SAMPLER") == "1":
        return "FlashInfer's sampler"
    quantized = f"{case.arg('quantization') or ''} {case.model.quantization if case.model else ''}".lower()
    return "NVFP4" if "fp4" in quantized or "modelopt" in quantized else None
