"""A program that is no engine, and ends with this process whatever ends it: by exit, by a signal, by SIGKILL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gearshift.supervisor.keeper_handle import KeeperHandle, KeeperJob
from gearshift.supervisor.keepers import keeper_writing_to


async def start_bound(argv: Sequence[str], env: Mapping[str, str], output: int, *, grace_s: float) -> KeeperHandle:
    """Start it under a keeper of its own, writing to the descriptor ``output``.

    ``grace_s`` is what its tree gets between SIGTERM and SIGKILL should this process die. Raises OSError where no
    keeper can be started, LoadFailedError where the program cannot.
    """
    return await KeeperHandle.start(KeeperJob(list(argv), dict(env), None, grace_s), *keeper_writing_to(output))
