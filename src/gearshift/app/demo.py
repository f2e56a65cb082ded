"""`gearshift demo`: variants of a small real model on a real engine, swapped by real requests, and what it took."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Protocol

from gearshift.app.demo_config import MODEL, demo_config, demo_variants
from gearshift.app.demo_tour import tour
from gearshift.app.demo_view import instructions, swap_table
from gearshift.app.listeners import bind_tcp
from gearshift.domain.engine import EngineInstall
from gearshift.domain.errors import GearshiftError
from gearshift.domain.paths import Paths, resolve_paths
from gearshift.domain.variant import EngineRef
from gearshift.toolchain import StepProgress, Toolchain, demo_gguf, demo_hf

START_S = 60.0
STOP_S = 60.0


class Printer(Protocol):
    """Where the demo speaks: results to stdout, what is under way to stderr."""

    def write(self, text: str) -> None: ...

    def say(self, text: str) -> None: ...

    def progress(self) -> AbstractContextManager[Callable[[str, float | None], None]]:
        """Shows a phase and, where it is known, how far it is; on a terminal as a bar."""
        ...


def demo(*, env: Mapping[str, str], keep: bool, printer: Printer) -> int:
    """Fetch what is missing, serve, swap, print the table; with ``keep``, go on serving until interrupted.

    Returns the exit status.
    """
    paths = resolve_paths(env)
    toolchain = Toolchain(paths, env)
    gguf, hf = _fetched(paths, toolchain, printer)
    home = paths.state / "demo"
    home.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    config = home / "gearshift.yaml"
    config.write_text(demo_config(gguf, hf, port))
    names = demo_variants(with_vllm=hf is not None)
    url = f"http://127.0.0.1:{port}"
    child_env = {**env, "GEARSHIFT_HOME": str(home), "GEARSHIFT_ENGINES": str(paths.engines)}
    with _server(config, home / "admin.sock", child_env, printer.say) as server:
        legs = asyncio.run(tour(url, home / "admin.sock", [*names, names[0]], printer.say))
        printer.write(swap_table(legs))
        if keep:
            printer.write(instructions(url, config, home, [f"{MODEL}:{name}" for name in names]))
            with suppress(KeyboardInterrupt):  # it is how such a demo is meant to end
                server.wait()
    return 0 if all(leg.ok for leg in legs) else 1


def _fetched(paths: Paths, toolchain: Toolchain, printer: Printer) -> tuple[Path, Path | None]:
    """The model for llama.cpp and, where vLLM is installed, for vLLM; llama-server is built if there is none."""
    missing = _installed(toolchain, EngineRef("llama.cpp")) is None
    if missing:
        printer.say("no llama-server here yet: building one (about 6 minutes on 2 free cores, once)")
    with printer.progress() as show:

        def told(progress: StepProgress) -> None:
            show(progress.title, progress.fraction)

        if missing:
            toolchain.install("llama.cpp", None, accelerator="cpu", progress=told)
        gguf = demo_gguf(paths, told)
        vllm = _installed(toolchain, EngineRef("vllm"))
        return gguf, demo_hf(paths, vllm, told) if vllm else None


def _installed(toolchain: Toolchain, ref: EngineRef) -> EngineInstall | None:
    try:
        return toolchain.find(ref)
    except GearshiftError:
        return None


def _free_port() -> int:
    with bind_tcp("127.0.0.1", 0) as probe:
        return int(probe.getsockname()[1])


@contextmanager
def _server(
    config: Path, admin_socket: Path, env: Mapping[str, str], tell: Callable[[str], None]
) -> Iterator[subprocess.Popen[bytes]]:
    """A server of its own state folder; its log goes beside its configuration. Ended, verified, on leaving."""
    log = config.with_name("serve.log")
    tell(f"starting gearshift serve --config {config} (log: {log})")
    with log.open("wb") as stream:
        server = subprocess.Popen(
            [sys.executable, "-m", "gearshift", "serve", "--config", str(config)], env=dict(env), stderr=stream
        )
    try:
        _await_start(server, admin_socket, log)
        yield server
    finally:
        tell("ending the server")
        server.send_signal(signal.SIGTERM)
        server.wait(STOP_S)


def _await_start(server: subprocess.Popen[bytes], admin_socket: Path, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while not admin_socket.exists():
        if server.poll() is not None or time.monotonic() > deadline:
            raise GearshiftError(f"the demo's server did not start; its log ends with: {log.read_text()[-800:]}")
        time.sleep(0.05)
