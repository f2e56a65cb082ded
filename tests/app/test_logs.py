"""What our own log may hold: it is pasted into questions and issues."""

from __future__ import annotations

import json
import subprocess
import sys

SCRIPT = """
import logging
import structlog
from gearshift.app.logs import logs

with logs():
    log = structlog.get_logger("x")
    log.error("load failed", cause="cannot open /home/anna/q8.gguf", left=["HF_TOKEN=hunter2"], pid=7)
    logging.getLogger("library").warning("Bearer hunter2 from /home/anna/x")
    try:
        raise OSError("/home/anna/state is full")
    except OSError:
        log.exception("broken")
"""


def test_home_folders_and_keys_are_taken_out_of_our_log() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=30, check=True)
    failed, library, broken = done.stderr.splitlines()
    assert "anna" not in done.stderr
    assert "hunter2" not in done.stderr
    assert json.loads(failed)["cause"] == "cannot open ~/q8.gguf"
    assert json.loads(failed)["pid"] == 7
    assert library.endswith("from ~/x")
    assert "OSError: ~/state is full" in json.loads(broken)["exception"]
