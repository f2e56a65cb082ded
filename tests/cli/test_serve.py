"""A whole life of the server as the command line sees it: started, notified, used, reloaded, ended."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result

from fakes.engine_argv import fake_engine_argv

Gearshift = Callable[..., Result]
START_S = 20


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "gearshift.yaml"
    variants = {
        name: {"engine": "command", "command": list(fake_engine_argv("${port}", served="toy")), "memory": "1MiB"}
        for name in ("a", "b")
    }
    settings = {
        "listen": "127.0.0.1:0",
        "defaults": {"min_resident": "0s"},
        "models": {"toy": {"variants": variants}},
        "groups": {"one": {"members": ["toy"]}},
    }
    file.write_text(json.dumps(settings))
    return file


class Served:
    """A server process, and what it tells the one that started it, as systemd would be told."""

    def __init__(self, process: subprocess.Popen[str], notices: socket.socket) -> None:
        self.process = process
        self._notices = notices

    def notice(self) -> str:
        return self._notices.recv(4096).decode()


@pytest.fixture
def served(config: Path, tmp_path: Path) -> Iterator[Served]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
        notices.settimeout(START_S)
        notices.bind(str(tmp_path / "notify"))
        env = os.environ | {"NOTIFY_SOCKET": str(tmp_path / "notify")}
        argv = [sys.executable, "-m", "gearshift", "serve", "--config", str(config)]
        with subprocess.Popen(argv, env=env, stderr=subprocess.PIPE, text=True) as process:
            server = Served(process, notices)
            try:
                assert server.notice() == "READY=1"
                yield server
            finally:
                process.kill()


def test_a_server_is_used_and_stopped_from_the_command_line(gearshift: Gearshift, served: Served) -> None:
    assert gearshift("load", "toy:a").exit_code == 0
    assert gearshift("run", "toy:b", "hello", "--max-tokens", "3").stdout.strip()
    states = {row["variant"]: row["state"] for row in json.loads(gearshift("ps", "--json").stdout)}
    assert states == {"toy:a": "stopped", "toy:b": "ready"}
    assert gearshift("stop").exit_code == 0
    assert served.notice() == "STOPPING=1"
    assert served.process.wait(START_S) == 0


def test_sigterm_ends_it_with_status_0(served: Served, gearshift: Gearshift) -> None:
    assert gearshift("load", "toy:a").exit_code == 0
    served.process.send_signal(signal.SIGTERM)
    assert served.notice() == "STOPPING=1"
    assert served.process.wait(START_S) == 0
    assert gearshift("ps").exit_code == 1


def test_a_second_server_on_the_same_state_folder_is_refused(served: Served, config: Path) -> None:
    argv = [sys.executable, "-m", "gearshift", "serve", "--config", str(config)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=START_S, check=False)
    assert done.returncode == 1
    assert "error: " in done.stderr
    assert "Traceback" not in done.stderr
    assert served.process.poll() is None


def test_a_broken_configuration_is_refused_with_status_2(tmp_path: Path) -> None:
    file = tmp_path / "broken.yaml"
    file.write_text("listen: nowhere\nmodls: {}\n")
    argv = [sys.executable, "-m", "gearshift", "serve", "--config", str(file)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=START_S, check=False)
    assert (done.returncode, done.stderr.count("error: ")) == (2, 2)


def test_without_a_configuration_or_a_terminal_it_says_how_to_get_one(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "gearshift", "serve"]
    env = os.environ | {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=START_S, check=False, env=env, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    hint = "write a first one: gearshift config init -o gearshift.yaml"
    assert done.stderr == f"error: there is no configuration\nhint: {hint}\n"
