from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gearshift.domain.variant import EngineRef
from gearshift.toolchain import Toolchain, demo_gguf, demo_hf
from system.harness import REAL, Gearshift, StartServer, free_port


@pytest.fixture(scope="session")
def gguf() -> str:
    """Real weights for llama-server."""
    return str(demo_gguf(REAL, lambda _: None))


@pytest.fixture(scope="session")
def hf() -> str:
    """Real weights for vLLM."""
    return str(demo_hf(REAL, Toolchain(REAL, os.environ).find(EngineRef("vllm")), lambda _: None))


@pytest.fixture
async def gearshift(tmp_path: Path) -> AsyncIterator[StartServer]:
    """Starts servers; every one is ended with the test, by force if need be."""
    started: list[Gearshift] = []
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=400)) as client:

        async def start(
            variants: Mapping[str, Any] | None = None,
            *,
            env: Mapping[str, str] | None = None,
            flags: tuple[str, ...] = (),
            run: bool = True,
            **top: Any,
        ) -> Gearshift:
            server = Gearshift(
                tmp_path / "state", tmp_path / "gearshift.yaml", free_port(), dict(env or {}), flags, client=client
            )
            models = {"m": {"variants": variants}} if variants else {}
            server.write({"memory": "16GiB", "defaults": {"min_resident": "0s"}, "models": models, **top})
            started.append(server)
            if run:
                await server.start()
            return server

        yield start
        for server in started:
            if server.process is not None and server.process.poll() is None:
                server.process.terminate()
                try:
                    await server.ended()
                finally:
                    server.process.kill()
