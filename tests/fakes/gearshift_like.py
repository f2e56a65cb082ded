"""A Gearshift-like parent to be killed: launches fake engines, prints their processes as JSON, then waits.

Arguments: a JSON list of flag sets, one engine each. GEARSHIFT_HOME is its state folder.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time

from fakes.engine_argv import fake_engine_argv
from fakes.log_fold import MarkedLog
from gearshift.domain.launch import Endpoint, LaunchSpec, StopRule
from gearshift.domain.paths import resolve_paths
from gearshift.domain.variant import Probe, Timing
from gearshift.hardware import CpuMemory
from gearshift.hardware.processes import below, snapshot
from gearshift.supervisor import LocalLauncher, StateLock


async def main() -> None:
    paths = resolve_paths(os.environ)
    with StateLock(paths):
        async with LocalLauncher(paths, CpuMemory()) as launcher:
            for number, flags in enumerate(json.loads(sys.argv[1])):
                port = launcher.free_port()
                spec = LaunchSpec(
                    variant=f"fake:{number}",
                    argv=fake_engine_argv(port, **flags),
                    env=dict(os.environ),
                    endpoint=Endpoint(f"http://127.0.0.1:{port}", "127.0.0.1", port),
                    served_name="fake",
                    log=MarkedLog(),
                    probe=Probe(),
                    stop=StopRule(grace_s=0.3),
                    timing=Timing(load_timeout_s=20),
                )
                await (await launcher.launch(spec)).ready()
            while not paths.children.exists() or paths.children.read_text().count('"pid"') < int(sys.argv[2]):
                await asyncio.sleep(0.01)  # until the state file knows the whole trees
            sys.stdout.write(json.dumps([process.pid for process in below([os.getpid()], snapshot())]) + "\n")
            sys.stdout.flush()
            await asyncio.to_thread(time.sleep, 600)


if __name__ == "__main__":
    asyncio.run(main())
