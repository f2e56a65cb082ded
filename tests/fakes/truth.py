"""The truth server in a process of its own, so that it and a client in a test do not share an interpreter."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def truth_server(**script: object) -> Iterator[str]:
    """Serves a script while the block runs; yields its URL."""
    argv = [sys.executable, "-m", "gearshift.bench.truth", json.dumps(script)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            url = server.stdout.readline().strip()
            assert url.startswith("http://"), "the truth server did not start"
            yield url
        finally:
            server.terminate()
            server.wait(10)
