"""A whole front for tests: the gateway behind its real server on loopback, a fake broker, a fake engine process."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
import uvicorn
from uvicorn.server import ServerState

from fakes.broker import FakeBroker, upstream_at
from fakes.engine_argv import fake_engine_argv
from fakes.serving import bound, healthy, until
from gearshift.domain.records import RequestRecord, SwapRecord
from gearshift.domain.settings import Model, Settings
from gearshift.domain.variant import ArgValue, EngineRef, Variant
from gearshift.gateway import create_gateway
from gearshift.gateway.server import GuardedProtocol, uvicorn_config


@dataclass
class ListSink:
    """Keeps every record."""

    requests: list[RequestRecord] = field(default_factory=list)

    def request(self, record: RequestRecord) -> None:
        self.requests.append(record)

    def swap(self, record: SwapRecord) -> None:
        raise NotImplementedError(record)


@dataclass
class Engine:
    """A fake engine process: its port, and what it saw."""

    port: int
    process: subprocess.Popen[bytes]

    async def report(self) -> dict[str, Any]:
        return await self._control("GET", "/__seen", None)

    async def seen(self) -> list[dict[str, Any]]:
        requests: list[dict[str, Any]] = (await self.report())["requests"]
        return requests

    async def body(self) -> Any:
        """The JSON body of the newest request."""
        return json.loads((await self.seen())[-1]["body"])

    async def set(self, **options: object) -> None:
        await self._control("POST", "/__set", options)

    async def _control(self, method: str, path: str, body: object) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self.port}{path}"
        async with aiohttp.ClientSession() as session, session.request(method, url, json=body) as response:
            document: dict[str, Any] = await response.json()
            return document


async def read_cut(response: aiohttp.ClientResponse) -> bytes:
    """What came of an answer that was cut off. Raises ValueError when its end was clean."""
    got = b""
    try:
        while chunk := await response.content.readany():
            got += chunk
    except aiohttp.ClientPayloadError:
        return got
    raise ValueError(got)


@asynccontextmanager
async def engine(**flags: ArgValue) -> AsyncIterator[Engine]:
    """A fake engine that listens; ended on the way out."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    flags.setdefault("served", "served")
    process = subprocess.Popen(fake_engine_argv(port, **flags), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        await until(lambda: healthy(port))
        yield Engine(port, process)
    finally:
        process.kill()
        process.wait()


@dataclass
class Front:
    """The gateway's address and everything a test may turn; ``settings`` may be replaced while it runs."""

    port: int
    broker: FakeBroker
    sink: ListSink
    settings: Settings

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def record(self) -> RequestRecord:
        """The first record, once it is there."""
        await until(lambda: bool(self.sink.requests))
        return self.sink.requests[0]

    async def reconfigure(self, **changes: object) -> None:
        self.settings = replace(self.settings, **changes)  # type: ignore[arg-type] # fields by name, as replace takes them


def chat_variant(**fields: Any) -> Variant:
    """`m:v`, a `command` variant."""
    return Variant("m", "v", EngineRef(fields.pop("kind", "command")), **fields)


@asynccontextmanager
async def front(engine_port: int, variant: Variant | None = None, **settings: Any) -> AsyncIterator[Front]:
    """A gateway whose only variant is served by the engine on ``engine_port``."""
    variant = variant or chat_variant()
    models = {variant.model: Model(variant.model, ("nick",), "auto", (variant,))}
    listener = bound(None)
    made = Front(
        listener.getsockname()[1],
        FakeBroker(variant, upstream_at(engine_port)),
        ListSink(),
        Settings(models=models, **settings),
    )
    gateway = create_gateway(made.broker, lambda: made.settings, made.sink)
    async with _served(uvicorn_config(gateway, made.settings), listener):
        yield made
    await gateway.close()


@asynccontextmanager
async def _served(config: uvicorn.Config, listener: socket.socket) -> AsyncIterator[None]:
    """What uvicorn's Server does with a config, but for its signals and its ticks of 0.1 s at either end."""
    config.load()
    state = ServerState()
    server = await asyncio.get_running_loop().create_server(lambda: GuardedProtocol(config, state, {}), sock=listener)
    try:
        yield
    finally:
        server.close()
        for connection in list(state.connections):
            connection.transport.abort()
        for task in list(state.tasks):
            task.cancel()
        await asyncio.gather(*state.tasks, return_exceptions=True)
