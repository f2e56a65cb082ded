"""Every benchmark, one after the other: ``make bench``, or ``python -m benchmarks NAME…`` for some of them.

Each prints a table of its own, with the budget it is held to. Figures are medians of one run; what is compared is
measured in that run, in alternating order, so other load on the box meets both sides alike.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

NAMES = ("gateway", "swap", "headers", "truth")


def main() -> int:
    chosen = sys.argv[1:] or list(NAMES)
    if unknown := [name for name in chosen if name not in NAMES]:
        raise SystemExit(f"there is no benchmark {', '.join(unknown)}; there are: {', '.join(NAMES)}")
    print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.2f} at the start\n", flush=True)
    failed = []
    for name in chosen:
        print(f"== {name}", flush=True)
        command = [sys.executable, "-m", f"benchmarks.{name}"]
        if subprocess.run(command, cwd=Path(__file__).parents[1], check=False).returncode:
            failed.append(name)
        print(flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
