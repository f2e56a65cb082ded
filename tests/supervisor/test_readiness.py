"""One load, watched: what it makes of moments that no engine can be told to have."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from fakes.log_fold import MarkedLog
from gearshift.domain.errors import LoadFailedError
from gearshift.supervisor.health import HealthClient
from gearshift.supervisor.launch_log import LaunchLog, LogFile
from gearshift.supervisor.readiness import Readiness
from supervisor.conftest import SpecOf

pytestmark = pytest.mark.anyio


async def test_an_engine_that_dies_right_after_a_good_answer_is_told_as_dead_and_not_as_a_strangers_port(
    spec_of: SpecOf, tmp_path: Path
) -> None:
    """The port is free again by the time somebody looks whose it was; the death is told a moment later."""
    plain = spec_of()
    spec = replace(plain, timing=replace(plain.timing, stall_timeout_s=None))
    looks = 0
    looked_twice = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        server.close()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    def pids() -> tuple[int, ...]:
        nonlocal looks
        looks += 1
        if looks == 2:
            looked_twice.set()
        return ()

    async def death() -> int:
        await looked_twice.wait()
        return 1

    server = await asyncio.start_server(answer, "127.0.0.1", spec.endpoint.port)
    reader, writer = os.pipe()
    os.close(writer)
    log = LaunchLog(reader, LogFile(tmp_path / "log"), MarkedLog(), lambda: None)
    async with aiohttp.ClientSession() as session:
        watched = Readiness(spec, HealthClient(session, spec), log, pids, asyncio.Event())
        with pytest.raises(LoadFailedError, match="the engine exited with status 1"):
            await watched.wait(time.monotonic(), 0.0, death)
