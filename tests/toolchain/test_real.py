"""Against real engines: what the binaries say, and that a launch spec of ours starts one. They fail where none is."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from gearshift.domain.engine import EngineInstall
from gearshift.domain.launch import LaunchSpec, Placement
from gearshift.domain.paths import Paths, resolve_paths
from gearshift.domain.startup import StartReport
from gearshift.domain.variant import ArgValue, EngineKind, EngineRef, Speculation, Variant
from gearshift.engines import check, launch_spec, log_fold, packaged_flags
from gearshift.engines.flags import distinct
from gearshift.toolchain import Toolchain, demo_gguf

pytestmark = pytest.mark.real
DEADLINE_S = 30.0
Start = Callable[[Variant], LaunchSpec]


@pytest.fixture(scope="module")
def real_paths() -> Paths:
    """Where engines really are: the default place, unless GEARSHIFT_ENGINES names another."""
    return resolve_paths({name: value for name, value in os.environ.items() if name != "GEARSHIFT_HOME"})


@pytest.fixture(scope="module")
def real_toolchain(real_paths: Paths) -> Toolchain:
    return Toolchain(real_paths, os.environ)


@pytest.fixture(scope="module")
def llama(real_toolchain: Toolchain) -> EngineInstall:
    return real_toolchain.find(EngineRef("llama.cpp"))


@pytest.fixture(scope="module")
def weights(real_paths: Paths) -> str:
    return str(demo_gguf(real_paths, lambda _: None))


@pytest.fixture
def start(llama: EngineInstall, tmp_path: Path) -> Start:
    """The launch spec of a variant on the CPU, at a free port."""

    def spec(variant: Variant) -> LaunchSpec:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        placement = Placement(("cpu",))
        return launch_spec(variant, placement, llama, port=port, folder=tmp_path, base_env=os.environ)

    return spec


def variant(
    weights: str, args: Mapping[str, ArgValue] | None = None, speculation: Speculation | None = None
) -> Variant:
    engine = EngineRef("llama.cpp")
    return Variant(
        "smol",
        "q4",
        engine,
        weights,
        context=1024,
        parallel=1,
        kv_dtype="q8_0",
        args=args or {},
        speculation=speculation,
    )


@contextmanager
def running(spec: LaunchSpec) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(spec.argv, env=spec.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as child:
        try:
            yield child
        finally:
            child.kill()


def folded(kind: EngineKind, output: bytes) -> StartReport:
    state = log_fold(kind)
    for line in output.decode("utf-8", "replace").splitlines():
        state = state.feed(line)
    return state.report


def healthy(spec: LaunchSpec, child: subprocess.Popen[bytes]) -> bool:
    """Wait for the health answer; False when the process ended first."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline and child.poll() is None:
        try:
            with urllib.request.urlopen(f"{spec.endpoint.base_url}{spec.health_path}", timeout=5) as answer:  # noqa: S310 - ours
                return bool(answer.status == 200)
        except OSError:
            time.sleep(0.05)
    return False


@pytest.mark.parametrize(("kind", "version"), [("llama.cpp", "11434"), ("vllm", "0.32.0")])
def test_the_packaged_table_is_what_the_binary_prints(
    kind: EngineKind, version: str, real_toolchain: Toolchain
) -> None:
    found = real_toolchain.find(EngineRef(kind, version))
    assert found.flags is not None
    assert found.flags.verified
    assert distinct(found.flags) == distinct(packaged_flags(kind, version))


def test_a_spec_starts_the_real_server_and_its_log_is_understood(start: Start, weights: str) -> None:
    spec = start(variant(weights, {"flash-attn": True, "threads": 1}, Speculation("ngram", 8)))
    with running(spec) as child:
        assert healthy(spec, child)
        child.send_signal(spec.stop.signal)
        output, _ = child.communicate(timeout=DEADLINE_S)
    report = folded("llama.cpp", output)
    assert (child.returncode, report.ready, report.failure) == (0, True, None)
    figures = report.figures
    assert (figures.version, figures.context, figures.kv_tokens) == ("11434", 1024, 1024)
    assert figures.kv_pool_bytes == pytest.approx(30 * 3 * 64 * 2 * 34 / 32 * 1024, rel=0.001)  # layers, heads, size
    assert figures.weights_bytes == pytest.approx(92.1 * 1024**2, rel=0.001)
    assert (figures.speculation_method, figures.speculation_tokens) == ("ngram-mod", 8)


def test_no_config_file_of_the_user_changes_a_start(
    start: Start, weights: str, llama: EngineInstall, tmp_path: Path
) -> None:
    user = tmp_path / "user"
    (user / ".config" / "llama.cpp").mkdir(parents=True)
    (user / ".config" / "llama.cpp" / "config.ini").write_text("[*]\nctx-size = 256\nno-such-flag = 1\n")
    base = {**os.environ, "HOME": str(user), "LLAMA_ARG_N_PARALLEL": "7"}
    base.pop("XDG_CONFIG_HOME", None)
    port = start(variant(weights)).endpoint.port
    spec = launch_spec(variant(weights), Placement(("cpu",)), llama, port=port, folder=tmp_path, base_env=base)
    with running(spec) as child:
        assert healthy(spec, child)
        child.send_signal(signal.SIGTERM)
        output, _ = child.communicate(timeout=DEADLINE_S)
    assert folded("llama.cpp", output).figures.context == 1024
    assert b"n_seq_max             = 1" in output


@pytest.mark.parametrize(
    ("args", "speculation", "weights_path", "cause", "fix"),
    [
        ({"no-mmap": None}, None, None, "invalid argument: --no-mmap", "load-mode"),
        ({"draft-max": 3}, None, None, "has been removed", "spec-draft-n-max"),
        ({}, None, "/no/such.gguf", "No such file or directory", "weights"),
        ({}, None, "/etc/passwd", "invalid magic", "weights"),
        ({}, Speculation("mtp", 2), None, "doesn't contain MTP layers", "speculation"),
    ],
)
def test_a_real_failure_is_explained(
    args: dict[str, ArgValue],
    speculation: Speculation | None,
    weights_path: str | None,
    cause: str,
    fix: str,
    start: Start,
    weights: str,
) -> None:
    spec = start(variant(weights_path or weights, args, speculation))
    with running(spec) as child:
        output, _ = child.communicate(timeout=DEADLINE_S)
    failure = folded("llama.cpp", output).failure
    assert child.returncode == 1
    assert failure is not None
    assert cause in failure.cause
    assert fix in str(failure.fix)


def test_a_taken_port_is_explained(start: Start, weights: str) -> None:
    spec = start(variant(weights))
    with socket.create_server(("127.0.0.1", spec.endpoint.port)), running(spec) as child:
        output, _ = child.communicate(timeout=DEADLINE_S)
    failure = folded("llama.cpp", output).failure
    assert failure is not None
    assert "couldn't bind" in failure.cause


def test_what_the_check_reports_is_what_the_binary_refuses(start: Start, weights: str, llama: EngineInstall) -> None:
    """The other way round as well: what it lets pass starts."""
    assert llama.flags is not None
    wrong: dict[str, ArgValue] = {"mlock": None, "split-mode": "tenor", "no-such-flag": 1, "ctx-size": None}
    for name, value in wrong.items():
        spec = start(variant(weights, {name: value}))
        assert check(variant(weights, {name: value}), llama.flags, "v")
        with running(spec) as child:
            child.communicate(timeout=DEADLINE_S)
        assert child.returncode == 1, name
