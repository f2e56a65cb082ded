"""Checks of the box and of the settings as a whole."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gearshift.advice.doctor.case import Setup
from gearshift.advice.doctor.check import Check, Registered
from gearshift.advice.doctor.finding import Severity, Sighting
from gearshift.domain.units import GIB, format_bytes

BOX: list[Check[Setup]] = []
_check = Registered(BOX).add

_LOOPBACK = ("127.", "::1", "localhost")
_ANY_ADDRESS = ("0.0.0.0", "::", "[::]")  # noqa: S104 - looked for, not bound to
_OPEN_HOST = re.compile(r"--host[= ](0\.0\.0\.0|::)( |$)")
_SWAPPED = GIB
_SHARE_WORTH_A_NOTE = 0.05  # of a card


@_check(
    "leaked-engine",
    "error",
    "engine processes whose server is gone and that still hold memory",
    why="A killed server or a failed start leaves workers behind; they rename themselves and hold the GPU.",
    fix="end it by its pid: kill PID, then kill -9 PID",
    link="https://github.com/vllm-project/vllm/issues/55510",
)
def _leaked_engine(setup: Setup) -> Iterator[Sighting]:
    for process in setup.box.processes:
        if not process.parented and not process.ours:
            held = f" holds {format_bytes(sum(process.held.values()))}" if any(process.held.values()) else ""
            yield Sighting(f"pid {process.pid} ({process.command}){held}, and no server owns it", "processes")


@_check(
    "foreign-engine",
    "warning",
    "engines that somebody else runs on these GPUs",
    why="What they hold is missing when a variant is loaded, and nobody here can make them give it back.",
    fix="stop them, or give Gearshift the other GPU (gpus:)",
    link="docs/doctor.md",
)
def _foreign_engine(setup: Setup) -> Iterator[Sighting]:
    for process in setup.box.processes:
        held = sum(process.held.values())
        if process.parented and not process.ours and held:
            yield Sighting(f"pid {process.pid} ({process.command}) holds {format_bytes(held)}", "processes")


@_check(
    "gpu-shared",
    "note",
    "GPU memory in use by what is no engine: a desktop, another program",
    why="It is missing for weights and cache, and a desktop's share moves: leave room for it.",
    fix="drive the desktop from another card, or plan with less memory",
    link="docs/planner.md",
)
def _gpu_shared(setup: Setup) -> Iterator[Sighting]:
    engines = {process.pid for process in setup.box.processes}
    for gpu in setup.box.gpus:
        reading = setup.box.readings.get(gpu.id)
        if reading is None:
            continue
        ours = sum(held for pid, held in reading.by_pid.items() if pid in engines)
        other = reading.used_bytes - ours
        if other > _SHARE_WORTH_A_NOTE * reading.total_bytes:
            yield Sighting(f"{format_bytes(other)} of {gpu.name} are in use", f"GPU {gpu.index}")


@_check(
    "gpu-power-capped",
    "note",
    "a GPU that is held below its default power limit",
    why="Figures of capped and uncapped cards do not compare: an RTX 5090 at 400 W lost 5 % plain, 18 % with 4 drafts.",
    fix="nvidia-smi -pl WATTS sets it; measure anew after a change",
    link="https://docs.nvidia.com/deploy/nvidia-smi/",
)
def _gpu_power_capped(setup: Setup) -> Iterator[Sighting]:
    for gpu in setup.box.gpus:
        set_to = setup.box.settings.get(gpu.id)
        limit, default = (set_to.power_limit_w, set_to.default_power_limit_w) if set_to else (None, None)
        if limit is not None and default is not None and limit < default:
            yield Sighting(f"{gpu.name} is held at {limit:g} W of {default:g} W", f"GPU {gpu.index}")


@_check(
    "swap-used",
    "warning",
    "a box that has swapped more than 1 GiB out",
    why="Weights or caches on disk turn milliseconds into seconds, and a load may stall.",
    fix="free RAM, cap what else runs (systemd-run -p MemoryMax=), or lower cache-ram",
    link="docs/doctor.md",
)
def _swap_used(setup: Setup) -> Iterator[Sighting]:
    memory = setup.box.memory
    used = memory.swap_total_bytes - memory.swap_free_bytes if memory else 0
    if used > _SWAPPED:
        yield Sighting(f"{format_bytes(used)} are swapped out", "memory")


@_check(
    "ram-limit",
    "note",
    "a memory limit (cgroup) on this process",
    why="Engines are started below it: page cache of weights counts too, and the kernel kills what exceeds it.",
    fix="raise it (systemd MemoryMax=, docker --memory) if loads die without a message",
    link="docs/service.md",
)
def _ram_limit(setup: Setup) -> Iterator[Sighting]:
    if setup.box.memory and setup.box.memory.limit_bytes is not None:
        yield Sighting(f"RAM is limited to {format_bytes(setup.box.memory.limit_bytes)}", "memory")


@_check(
    "wsl",
    "note",
    "Windows Subsystem for Linux",
    why="Windows moves GPU memory to RAM without an error when a card is full: decoding gets about five times slower.",
    fix="keep 1 to 2 GiB of each card free; set CUDA - Sysmem Fallback Policy to Prefer No Sysmem Fallback",
    link="docs/doctor.md",
)
def _wsl(setup: Setup) -> Iterator[Sighting]:
    if setup.box.wsl:
        yield Sighting("this is WSL", "kernel")


@_check(
    "exposed-listen",
    "error",
    "a listen address beyond this box without API keys",
    why="Whoever reaches the port may run the models and read what they answer.",
    fix="listen on 127.0.0.1, or add api_keys",
    link="docs/api-keys.md",
)
def _exposed_listen(setup: Setup) -> Iterator[Sighting]:
    settings = setup.settings
    if settings and not settings.api_keys and not settings.host.startswith(_LOOPBACK):
        severity: Severity | None = "warning" if settings.allow_open else None
        yield Sighting(f"{settings.host}:{settings.port} answers without a key", "listen", severity=severity)


@_check(
    "exposed-command",
    "warning",
    "a command variant that binds its own server to every address",
    why="It can be reached past Gearshift: past its keys, its queue and its swaps.",
    fix="bind it to 127.0.0.1",
    link="docs/remote-access.md",
)
def _exposed_command(setup: Setup) -> Iterator[Sighting]:
    variants = setup.settings.variants() if setup.settings else {}
    for variant in variants.values():
        words = [part for word in variant.command or () for part in word.split("=")]
        if any(word in _ANY_ADDRESS for word in words):
            place = f"models.{variant.model}.variants.{variant.name}.command"
            yield Sighting(f"{variant.id} listens on every address", place)


@_check(
    "exposed-engine",
    "warning",
    "an engine that somebody else runs here, open to every address and without a key",
    why="Whoever reaches this box may use it, and read what it answers to others.",
    fix="bind it to 127.0.0.1, or give it --api-key; Gearshift's own engines are on loopback",
    link="docs/remote-access.md",
)
def _exposed_engine(setup: Setup) -> Iterator[Sighting]:
    for process in setup.box.processes:
        open_to_all = _OPEN_HOST.search(process.command) and "--api-key" not in process.command
        if not process.ours and open_to_all:
            yield Sighting(f"pid {process.pid} ({process.command})", "processes")


@_check(
    "config-warnings",
    "warning",
    "what loading the configuration warned about",
    why="The file loads, but something in it does not mean what it seems to.",
    fix="see docs/configuration.md",
    link="docs/configuration.md",
)
def _config_warnings(setup: Setup) -> Iterator[Sighting]:
    for problem in setup.warnings:
        if not problem.path.endswith(".weights"):  # examined per variant
            yield Sighting(problem.message, problem.path, problem.hint)
