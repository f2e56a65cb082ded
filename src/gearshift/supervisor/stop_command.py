"""A variant's own stop command, such as ``docker stop``: run instead of a first signal."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import structlog

log = structlog.get_logger(__name__)


async def run_stop_command(command: Sequence[str], env: Mapping[str, str], timeout_s: float) -> None:
    """Run it to its end or for ``timeout_s``. What it failed to do shows in what is left behind, so it never raises."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            env=dict(env),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        log.warning("stop command cannot be started", command=command[0], cause=error.strerror)
        return
    try:
        async with asyncio.timeout(timeout_s):
            code = await process.wait()
    except TimeoutError:
        log.warning("stop command did not end within stop_grace", command=command[0], timeout_s=timeout_s)
        process.kill()
        code = await process.wait()
    if code:
        log.warning("stop command failed", command=command[0], status=code)
