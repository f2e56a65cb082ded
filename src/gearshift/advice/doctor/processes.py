"""Telling engines among the processes of a box, and whether anybody owns them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gearshift.advice.doctor.case import EngineProcess

_WORKER = re.compile(r"^VLLM::")  # vLLM's children rename themselves: EngineCore, Worker_TP0, ...
_SERVER = re.compile(r"(^|[/ ])(llama-server|vllm serve|vllm\.entrypoints\.openai\.api_server)( |$)")
_REAPER = re.compile(r"(^|/)(init|systemd|tini|dumb-init|docker-init|catatonit|containerd-shim\S*)( |$)")
_GEARSHIFT = re.compile(r"(^|[/ .])gearshift([ ./]|$)")


def looks_like_engine(command: str) -> bool:
    """Whether a command line is that of a vLLM or llama.cpp process."""
    return bool(_WORKER.search(command) or _SERVER.search(command))


def engine_processes(
    parents: Mapping[int, int], commands: Mapping[int, str], held: Mapping[int, Mapping[str, int]]
) -> tuple[EngineProcess, ...]:
    """Every engine process, by pid.

    A worker is parented while a server, or a program that uses vLLM as a library, is among its ancestors: the engine
    core does not notice when its API server is killed, and init or another reaper adopts it. ``held`` are bytes of
    device memory by pid and device.
    """
    engines = sorted(pid for pid, command in commands.items() if looks_like_engine(command))
    return tuple(_engine(pid, parents, commands, held.get(pid, {})) for pid in engines)


def _engine(
    pid: int, parents: Mapping[int, int], commands: Mapping[int, str], held: Mapping[str, int]
) -> EngineProcess:
    above = {ancestor: commands.get(ancestor, "") for ancestor in _ancestors(pid, parents)}
    worker = _WORKER.search(commands[pid]) is not None
    return EngineProcess(
        pid=pid,
        command=commands[pid],
        parented=not worker or any(_owns(ancestor, command) for ancestor, command in above.items()),
        ours=any(_GEARSHIFT.search(command) for command in above.values()),
        held={device: count for device, count in held.items() if count},
    )


def _owns(pid: int, command: str) -> bool:
    """Whether an ancestor is one that started workers: in a container even the first process may be."""
    if _WORKER.search(command) or _REAPER.search(command):
        return False
    return pid != 1 or bool(_SERVER.search(command)) or "python" in command


def _ancestors(pid: int, parents: Mapping[int, int]) -> Iterator[int]:
    seen = {pid}
    while (pid := parents.get(pid, 0)) and pid not in seen:
        seen.add(pid)
        yield pid
