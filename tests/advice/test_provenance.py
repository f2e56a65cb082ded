"""What is told of a running process: its own words without its port, its files, its box; null for what is gone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from gearshift.advice.provenance import ProvenanceReader, Running, without_port
from gearshift.domain.device import CPU_DEVICE, Device
from gearshift.domain.provenance import EngineBuild, Gpu, GpuSettings, Provenance

BUILD = EngineBuild("llama.cpp", "11434", "d1ge57")
PORT = 41001
GONE = 2**22 + 1  # above the kernel's highest pid


def reader(config: Path | None = None, devices: tuple[Device, ...] = ()) -> ProvenanceReader:
    return ProvenanceReader("0.1.0", devices, config, settings=lambda: {"GPU-a": GpuSettings(power_limit_w=350.0)})


@contextmanager
def engine(*words: str, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Iterator[int]:
    """A process with this command line and environment, while the block runs."""
    program = "import sys; print('ready', flush=True); sys.stdin.read()"
    argv = [sys.executable, "-S", "-E", "-c", program, *words]
    with subprocess.Popen(argv, env=env or {}, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        yield process.pid
        process.kill()


def told(pid: int | None, *, sets: frozenset[str] = frozenset(), config: Path | None = None) -> Provenance:
    return reader(config).read(Running("m:a", BUILD, pid, PORT, sets))


def test_two_starts_of_a_variant_differ_in_nothing_that_is_told(tmp_path: Path) -> None:
    (tmp_path / "q8.gguf").write_bytes(b"gguf")
    found = []
    for port in (41001, 41002):
        words = ("--model", "q8.gguf", "--port", str(port), f"--listen=127.0.0.1:{port}", f"http://127.0.0.1:{port}/v1")
        with engine(*words, env={"VLLM_PORT": str(port), "OMP_NUM_THREADS": "2"}, cwd=tmp_path) as pid:
            found.append(reader().read(Running("m:a", BUILD, pid, port)))
    assert found[0] == found[1]
    assert found[0].argv is not None
    assert found[0].argv[5:] == (
        "--model",
        "q8.gguf",
        "--port",
        "PORT",
        "--listen=127.0.0.1:PORT",
        "http://127.0.0.1:PORT/v1",
    )
    assert found[0].env == {"VLLM_PORT": "PORT", "OMP_NUM_THREADS": "2"}
    assert [Path(one.file).name for one in found[0].weights or ()] == ["q8.gguf"]
    assert (found[0].engine, found[0].gearshift) == (BUILD, "0.1.0")


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("41001", "PORT"),
        ("--port=41001", "--port=PORT"),
        ('{"port": 41001}', '{"port": PORT}'),
        ("/models/41001/q8.gguf", "/models/41001/q8.gguf"),
        ("seed-41001", "seed-41001"),
        ("141001", "141001"),
        ("0.41001", "0.41001"),
    ],
)
def test_only_a_number_of_its_own_is_the_port(word: str, expected: str) -> None:
    assert without_port(word, PORT) == expected


def test_variables_are_those_that_engines_read_and_the_variants_own_but_no_secret() -> None:
    env = {"VLLM_USE_V1": "1", "HOME": "/root", "HF_TOKEN": "x", "LLAMA_API_KEY": "x", "MINE": "1", "MY_PASSWORD": "x",
           "VLLM_MAX_TOKENS_PER_CHUNK": "8"}  # fmt: skip
    with engine(env=env) as pid:
        found = told(pid, sets=frozenset({"MINE", "MY_PASSWORD"}))
    assert found.env == {"MINE": "1", "VLLM_USE_V1": "1", "VLLM_MAX_TOKENS_PER_CHUNK": "8"}


@pytest.mark.parametrize("pid", [GONE, None])
def test_of_a_process_that_is_gone_or_elsewhere_only_the_box_is_told(pid: int | None) -> None:
    found = told(pid)
    assert (found.argv, found.env, found.weights, found.template_sha256) == (None, None, None, None)
    assert found.hardware.cores > 0


def test_of_a_process_that_has_ended_and_was_not_waited_for_nothing_is_told() -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", ""], stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.read()  # its end
        while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
            pass
        found = told(process.pid)
    assert (found.argv, found.env) == (None, None)


def test_large_files_have_the_hash_that_the_lock_beside_the_configuration_knows(tmp_path: Path) -> None:
    file = {"name": "q8.gguf", "bytes": 4, "sha256": "of the lock"}
    recipe = {"settings": {}, "engine": {"kind": "llama.cpp"}, "files": {"weights": {"files": [file]}}}
    (tmp_path / "gearshift.lock").write_text(json.dumps({"format": 1, "recipes": {"m:a": recipe}}))
    (tmp_path / "q8.gguf").write_bytes(b"gguf")
    with engine("--model", str(tmp_path / "q8.gguf")) as pid:
        (known,) = told(pid, config=tmp_path / "gearshift.yaml").weights or ()
        (tmp_path / "gearshift.lock").write_text("broken")
        (read,) = told(pid, config=tmp_path / "gearshift.yaml").weights or ()
    assert known.sha256 == "of the lock"
    assert read.sha256 != "of the lock"


def test_the_boxes_gpus_have_their_settings_and_the_host_is_none_of_them() -> None:
    devices = (
        Device("GPU-a", 0, "RTX 3090", 24),
        Device("GPU-b", 1, "RTX 3090", 24),
        Device(CPU_DEVICE, None, "ram", 9),
    )
    hardware = reader(devices=devices).read(Running("m:a", BUILD, None, PORT)).hardware
    assert hardware.gpus == (
        Gpu("RTX 3090", 24, GpuSettings(power_limit_w=350.0)),
        Gpu("RTX 3090", 24, GpuSettings()),
    )
