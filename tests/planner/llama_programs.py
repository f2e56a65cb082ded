"""Where the tests find a real llama.cpp: a folder named by hand, the PATH, or what `make engines` installed."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from gearshift.domain.paths import resolve_paths

_ENGINES = resolve_paths(os.environ).engines  # read before each test gets a home of its own
_FOLDER = os.environ.get("GEARSHIFT_TEST_LLAMACPP")
_DEADLINE_S = 30.0


def program(name: str) -> Path:
    """The program, or a failed test: a box that runs the real tests has to have it."""
    named = Path(_FOLDER) / name if _FOLDER else None
    on_path = shutil.which(name)
    candidates = [
        named,
        Path(on_path) if on_path else None,
        *sorted(_ENGINES.glob(f"llama.cpp-*/bin/{name}"), reverse=True),
    ]
    found = next((path for path in candidates if path and path.is_file()), None)
    if found is None:
        pytest.fail(f"{name} is not installed: run `make engines`, or name its folder in GEARSHIFT_TEST_LLAMACPP")
    return found


def start_up_log(model: Path, *flags: str) -> str:
    """Start llama-server on the model, wait until it listens, stop it, and return what it logged."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = model.with_suffix(".log")
    with (
        log.open("wb") as out,
        subprocess.Popen(
            [
                program("llama-server"),
                "-m",
                model,
                "--host",
                "127.0.0.1",
                "--port",
                str(port),
                "-lv",
                "4",
                *_QUIET,
                *flags,
            ],
            stdout=out,
            stderr=subprocess.STDOUT,
            env={"HOME": str(model.parent), "PATH": os.environ["PATH"]},
        ) as server,
    ):
        try:
            _wait_for(log, server)
        finally:
            server.terminate()
            server.wait(_DEADLINE_S)
    return log.read_text(errors="replace")


def fit_figures(model: Path, *flags: str) -> tuple[int, int, int]:
    """Model, context and compute of the host in MiB, as llama-fit-params prints them."""
    command = [str(program("llama-fit-params")), "-m", str(model), "-fitp", "on", *flags]
    text = subprocess.run(command, capture_output=True, text=True, timeout=_DEADLINE_S, check=True).stdout
    match = re.search(r"^Host\s+(\d+)\s+(\d+)\s+(\d+)", text, re.MULTILINE)
    assert match is not None, text
    return int(match[1]), int(match[2]), int(match[3])


def buffers(log: str, kind: str) -> Sequence[float]:
    """Every ``<kind> buffer size`` of the log in MiB, in order."""
    return [float(size) for size in re.findall(rf"{kind} buffer size =\s*([\d.]+) MiB", log)]


_QUIET = ("-fit", "off", "--no-warmup")


def _wait_for(log: Path, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _DEADLINE_S
    while time.monotonic() < until:
        text = log.read_text(errors="replace")
        if "listening on" in text:
            return
        assert server.poll() is None, text[-2000:]
        time.sleep(0.02)
    pytest.fail(f"llama-server did not listen within {_DEADLINE_S} s: {log.read_text(errors='replace')[-2000:]}")
