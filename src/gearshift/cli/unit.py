"""The systemd user unit as text. Pure: what runs where goes in, the file comes out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

UNIT_NAME = "gearshift.service"

# Where engines, weights and state are found; a user unit starts with almost none of the environment of a login shell.
CARRIED = (
    "PATH", "GEARSHIFT_HOME", "GEARSHIFT_ENGINES", "XDG_STATE_HOME", "XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE",
    "CUDA_HOME", "LD_LIBRARY_PATH",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Unit:
    """What differs from one installation to the next. Sizes are systemd's: 24G, 80%, infinity."""

    program: Sequence[str]  # how gearshift is started: absolute path and leading arguments
    config: Path
    memory_max: str | None = None
    memory_swap_max: str | None = None
    stop_timeout_s: int = 120
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Path | None = None  # a file of NAME=value lines, for API keys; may be absent


def unit_text(unit: Unit) -> str:
    """The whole unit file."""
    return "\n".join([*_head(), *_service(unit), "", "[Install]", "WantedBy=default.target", ""])


def _head() -> Iterator[str]:
    yield "[Unit]"
    yield "Description=Gearshift, one endpoint for the variants of local models"
    yield "StartLimitIntervalSec=300"
    yield "StartLimitBurst=5"
    yield ""


def _service(unit: Unit) -> Iterator[str]:
    yield "[Service]"
    yield "Type=notify"
    yield "ExecStart=" + " ".join(_argument(part) for part in (*unit.program, "serve", "--config", str(unit.config)))
    yield "ExecReload=/bin/kill -HUP $MAINPID"
    yield "Restart=on-failure"
    yield "RestartSec=3"
    yield "# SIGTERM goes to Gearshift alone, which ends its engines in order; what is left after that is killed."
    yield "KillMode=mixed"
    yield f"TimeoutStopSec={unit.stop_timeout_s}"
    yield from _memory(unit)
    for name, value in unit.environment.items():
        yield f"Environment={_quoted(f'{name}={value}')}"
    if unit.secrets:
        yield f"EnvironmentFile=-{_escaped(str(unit.secrets))}"


def _memory(unit: Unit) -> Iterator[str]:
    """Limits hold for Gearshift and all its engines together: they share the unit's control group."""
    if unit.memory_max or unit.memory_swap_max:
        yield "# The limits count Gearshift and its engines together. An engine killed for going beyond them does not"
        yield "# end the service: Gearshift sees it die, says so and starts it again."
        yield "OOMPolicy=continue"
    if unit.memory_max:
        yield f"MemoryMax={unit.memory_max}"
    if unit.memory_swap_max:
        yield f"MemorySwapMax={unit.memory_swap_max}"


def _argument(text: str) -> str:
    """One word of ExecStart: `$` would name a variable there."""
    return _quoted(text.replace("$", "$$"))


def _quoted(text: str) -> str:
    escaped = _escaped(text)
    return f'"{escaped}"' if any(character in escaped for character in " \t'\";") or not escaped else escaped


def _escaped(text: str) -> str:
    """`%` would begin a specifier, a backslash an escape."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
