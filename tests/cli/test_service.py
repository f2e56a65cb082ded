"""The systemd unit as whole text, and what install and uninstall ask of systemctl (a recording script here)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from inline_snapshot import snapshot

from gearshift.cli.unit import Unit, unit_text

Gearshift = Callable[..., Result]


def test_a_plain_unit_has_no_limits() -> None:
    assert unit_text(Unit(("/opt/gs/bin/gearshift",), Path("/home/me/gearshift.yaml"))) == snapshot("""\
[Unit]
Description=Gearshift, one endpoint for the variants of local models
StartLimitIntervalSec=300
StartLimitBurst=5

[Service]
Type=notify
ExecStart=/opt/gs/bin/gearshift serve --config /home/me/gearshift.yaml
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=3
# SIGTERM goes to Gearshift alone, which ends its engines in order; what is left after that is killed.
KillMode=mixed
TimeoutStopSec=120

[Install]
WantedBy=default.target
""")


def test_limits_environment_and_secrets_are_lines_of_their_own() -> None:
    unit = Unit(
        program=("/usr/bin/python3", "-m", "gearshift"),
        config=Path("/home/me/my models/100%.yaml"),
        memory_max="24G",
        memory_swap_max="8G",
        stop_timeout_s=300,
        environment={"PATH": "/opt/cuda/bin:/usr/bin", "HF_HOME": 'a "b" \\ $c'},
        secrets=Path("/home/me/.config/gearshift/env"),
    )
    assert unit_text(unit) == snapshot("""\
[Unit]
Description=Gearshift, one endpoint for the variants of local models
StartLimitIntervalSec=300
StartLimitBurst=5

[Service]
Type=notify
ExecStart=/usr/bin/python3 -m gearshift serve --config "/home/me/my models/100%%.yaml"
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=3
# SIGTERM goes to Gearshift alone, which ends its engines in order; what is left after that is killed.
KillMode=mixed
TimeoutStopSec=300
# The limits count Gearshift and its engines together. An engine killed for going beyond them does not
# end the service: Gearshift sees it die, says so and starts it again.
OOMPolicy=continue
MemoryMax=24G
MemorySwapMax=8G
Environment=PATH=/opt/cuda/bin:/usr/bin
Environment="HF_HOME=a \\"b\\" \\\\ $c"
EnvironmentFile=-/home/me/.config/gearshift/env

[Install]
WantedBy=default.target
""")


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("/a/$HOME.yaml", "/a/$$HOME.yaml"),
        ("/a/50%.yaml", "/a/50%%.yaml"),
        ("/a/b c.yaml", '"/a/b c.yaml"'),
        ('/a/"q".yaml', '"/a/\\"q\\".yaml"'),
        ("/a/back\\slash.yaml", "/a/back\\\\slash.yaml"),
    ],
)
def test_a_path_reaches_the_server_as_it_is(path: str, word: str) -> None:
    line = next(line for line in unit_text(Unit(("gearshift",), Path(path))).splitlines() if "ExecStart" in line)
    assert line == f"ExecStart=gearshift serve --config {word}"


@pytest.fixture
def systemctl(tmp_path: Path) -> Path:
    """A systemctl that writes down what it was asked; fails while ``broken`` exists beside it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "systemctl"
    script.write_text(
        f'#!/bin/sh\necho "$@" >> {folder}/asked\n[ ! -e {folder}/broken ] || {{ echo "no bus" >&2; exit 1; }}\n'
    )
    script.chmod(0o755)
    return folder


def environment(tmp_path: Path, folder: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(tmp_path / "config"), "PATH": f"{folder}:/usr/bin:/bin", "HF_HOME": ""}


def test_install_writes_the_unit_and_says_how_to_start_it(
    gearshift: Gearshift, tmp_path: Path, systemctl: Path
) -> None:
    env = environment(tmp_path, systemctl)
    result = gearshift("service", "install", "--config", "/c.yaml", "--memory-max", "24G", env=env)
    unit = tmp_path / "config/systemd/user/gearshift.service"
    assert (result.exit_code, result.stdout) == (0, f"{unit}\n")
    assert result.stderr == snapshot("""\
to start it: systemctl --user daemon-reload && systemctl --user enable --now gearshift.service
to keep it running while you are logged out: loginctl enable-linger
""")
    assert "MemoryMax=24G\n" in unit.read_text()
    assert not (systemctl / "asked").exists()


def test_install_now_enables_and_uninstall_takes_it_back(gearshift: Gearshift, tmp_path: Path, systemctl: Path) -> None:
    env = environment(tmp_path, systemctl)
    assert gearshift("service", "install", "--config", "/c.yaml", "--now", env=env).exit_code == 0
    assert gearshift("service", "uninstall", env=env).exit_code == 0
    assert (systemctl / "asked").read_text().splitlines() == snapshot(
        [
            "--user daemon-reload",
            "--user enable --now gearshift.service",
            "--user disable --now gearshift.service",
            "--user daemon-reload",
        ]
    )
    assert not (tmp_path / "config/systemd/user/gearshift.service").exists()


def test_show_prints_what_install_writes(gearshift: Gearshift, tmp_path: Path, systemctl: Path) -> None:
    env = environment(tmp_path, systemctl)
    shown = gearshift("service", "show", "--config", "/c.yaml", env=env).stdout
    gearshift("service", "install", "--config", "/c.yaml", env=env)
    assert (tmp_path / "config/systemd/user/gearshift.service").read_text() == shown


def test_a_systemctl_that_fails_is_quoted(gearshift: Gearshift, tmp_path: Path, systemctl: Path) -> None:
    (systemctl / "broken").touch()
    result = gearshift("service", "install", "--config", "/c.yaml", "--now", env=environment(tmp_path, systemctl))
    assert (result.exit_code, result.stderr) == (1, "error: `systemctl --user daemon-reload` failed: no bus\n")


def test_a_box_without_systemd_is_told_so(gearshift: Gearshift, tmp_path: Path) -> None:
    env = environment(tmp_path, tmp_path) | {"PATH": str(tmp_path)}
    result = gearshift("service", "install", "--config", "/c.yaml", "--now", env=env)
    assert (result.exit_code, result.stderr) == snapshot(
        (
            1,
            """\
error: systemctl is not on PATH
hint: this box has no systemd; run `gearshift serve` under your own supervisor
""",
        )
    )


def test_uninstall_removes_the_unit_although_systemd_cannot_be_reached(
    gearshift: Gearshift, tmp_path: Path, systemctl: Path
) -> None:
    env = environment(tmp_path, systemctl)
    gearshift("service", "install", "--config", "/c.yaml", env=env)
    (systemctl / "broken").touch()
    result = gearshift("service", "uninstall", env=env)
    assert (result.exit_code, "no bus" in result.stderr) == (1, True)
    assert not (tmp_path / "config/systemd/user/gearshift.service").exists()


def test_uninstall_without_a_unit_is_an_error(gearshift: Gearshift, tmp_path: Path, systemctl: Path) -> None:
    result = gearshift("service", "uninstall", env=environment(tmp_path, systemctl))
    assert (result.exit_code, "does not exist" in result.stderr) == (1, True)


@pytest.mark.parametrize("size", ["24GB", "lots", "-1G", "24 G"])
def test_a_limit_that_systemd_does_not_know_is_a_usage_error(gearshift: Gearshift, size: str) -> None:
    result = gearshift("service", "show", "--config", "/c.yaml", "--memory-max", size)
    assert (result.exit_code, size in result.stderr) == (2, True)
