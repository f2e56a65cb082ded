"""The demo's own server is ended however the demo ends."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gearshift.app.demo import _server


def test_a_demo_that_is_interrupted_ends_its_server_and_goes_no_further(gearshift_home: Path) -> None:
    config = gearshift_home / "gearshift.yaml"
    config.write_text("listen: 127.0.0.1:0\nmodels: {}\n")
    env = {**os.environ, "GEARSHIFT_HOME": str(gearshift_home)}
    said: list[str] = []
    with pytest.raises(KeyboardInterrupt), _server(config, gearshift_home / "admin.sock", env, said.append) as server:
        raise KeyboardInterrupt
    assert server.returncode == 0
    assert said[-1] == "ending the server"
