"""The whole of Gearshift in front of the benchmark's engine: ``served.py PORT ENGINE_PORT`` becomes `gearshift serve`.

One variant that runs elsewhere already, with sampling defaults to write into each body: scheduler, leases, metering and
the store are all in the way, as they are for a user.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import yaml


def config(port: str, engine_port: str) -> str:
    variant = {"engine": "command", "upstream": f"http://127.0.0.1:{engine_port}", "probe": "none", "max_inflight": 256}
    model = {"sampling": {"temperature": 0.6, "top_p": 0.95}, "variants": {"v": variant}}
    return yaml.safe_dump({"listen": f"127.0.0.1:{port}", "models": {"bench": model}})


def main() -> None:
    port, engine_port = sys.argv[1:]
    folder = Path(tempfile.mkdtemp(prefix="gearshift-bench-"))
    file = folder / "gearshift.yaml"
    file.write_text(config(port, engine_port))
    log = os.open(folder / "serve.log", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 2)
    argv = [sys.executable, "-m", "gearshift", "serve", "--config", str(file)]
    os.execve(sys.executable, argv, {**os.environ, "GEARSHIFT_HOME": str(folder / "state")})  # noqa: S606 - becomes it


if __name__ == "__main__":
    main()
