"""What the fake engine holds on a scripted GPU: an entry in the control file that `gearshift.hardware.fake` reads."""

import fcntl
import json
import os
from pathlib import Path

from fakes.engine.options import Options

_AWAKE, _ASLEEP = 16 * 2**30, 2 * 2**30


def hold(options: Options, *, asleep: bool) -> None:
    """Be seen to hold memory from now on; several engines share the file."""
    if options.gpu_file is None:
        return
    path = Path(options.gpu_file)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        script = json.loads(path.read_text()) if path.exists() else {"held": {"GPU-fake-0": {}}}
        script["held"]["GPU-fake-0"][str(os.getpid())] = _ASLEEP if asleep else _AWAKE
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(script))
        fresh.replace(path)
