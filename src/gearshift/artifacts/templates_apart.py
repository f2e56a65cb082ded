"""Trying a template in a process of its own: a stranger's template may loop for ever or fill the memory."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from dataclasses import asdict

from gearshift.artifacts.templates import Rendering
from gearshift.artifacts.templates_render import try_template
from gearshift.domain.units import GIB

_DEADLINE_S = 20.0  # Python's start on a busy box included; rendering takes milliseconds
_CPU_S = 5  # no template of any use takes a tenth of a second
_MEMORY_BYTES = 2 * GIB  # address space, of which Python and jinja2 reserve a small part


def try_template_apart(text: str, *, cpu_s: int = _CPU_S) -> Rendering:
    """What survives a template, as `try_template` tells it, or that it came to no end within its limits."""
    command = (sys.executable, "-m", "gearshift.artifacts.templates_apart", str(cpu_s))
    try:
        done = subprocess.run(command, input=text.encode(), capture_output=True, timeout=_DEADLINE_S, check=False)
        document = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return Rendering(failure=f"it was still rendering a short conversation after {_DEADLINE_S:.0f} s")
    except ValueError:
        return Rendering(failure=f"it took more than {cpu_s} s or {_MEMORY_BYTES // GIB} GiB for a short conversation")
    return Rendering(**document | {"lost": tuple(document["lost"])})


def main(cpu_s: int) -> None:
    """Render the template on stdin within hard limits, and print the result as JSON."""
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    sys.stdout.write(json.dumps(asdict(try_template(sys.stdin.buffer.read().decode()))))


if __name__ == "__main__":
    main(int(sys.argv[1]))
