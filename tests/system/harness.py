"""A whole Gearshift as a user runs it: its own process, its own state folder, a real port, real clients."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import aiohttp
import yaml

from fakes.engine_argv import fake_engine_argv
from gearshift.domain.paths import resolve_paths

START_S = 20.0
# Where the engines and weights of real runs are: this user's own, whatever state folder a test gives its server.
REAL = resolve_paths({name: value for name, value in os.environ.items() if name != "GEARSHIFT_HOME"})
ENV = {"GEARSHIFT_ENGINES": str(REAL.engines)}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def fake(*, memory: str = "10GiB", config: Mapping[str, Any] | None = None, **flags: Any) -> dict[str, Any]:
    """A `command` variant of the configuration file that runs the fake engine with these flags."""
    argv = list(fake_engine_argv("${port}", served="m", **flags))
    return {"engine": "command", "command": argv, "memory": memory, **(config or {})}


@dataclass(frozen=True)
class Answer:
    """An HTTP answer, read to its end; ``whole`` is False when the connection broke before it."""

    status: int
    headers: Mapping[str, str]
    body: str
    whole: bool = True

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The JSON payloads of a stream."""
        lines = [line[5:].strip() for line in self.body.splitlines() if line.startswith("data:")]
        return [json.loads(line) for line in lines if line != "[DONE]"]

    @property
    def text(self) -> str:
        """What a chat stream said."""
        pieces = [event["choices"][0]["delta"].get("content") for event in self.events if event.get("choices")]
        return "".join(piece for piece in pieces if piece)


@dataclass
class Gearshift:
    """One server process. ``home`` is its state folder, ``config`` its file."""

    home: Path
    config: Path
    port: int
    env: dict[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    client: aiohttp.ClientSession | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def log(self) -> str:
        return (self.home / "serve.log").read_text(errors="replace")

    def write(self, document: Mapping[str, Any]) -> None:
        """Write the configuration file, listening on this server's port."""
        self.config.write_text(yaml.safe_dump({"listen": f"127.0.0.1:{self.port}", **document}, sort_keys=False))

    async def start(self) -> None:
        """Start the process and wait until it answers. Fails with its log when it ends instead."""
        self.home.mkdir(exist_ok=True)
        env = {**os.environ, "GEARSHIFT_HOME": str(self.home), **self.env}
        with (self.home / "serve.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "gearshift", "serve", *self.flags, "--config", str(self.config)],
                env=env,
                stderr=log,
            )
        deadline = time.monotonic() + START_S
        while not await self._answers():
            assert self.process.poll() is None, f"serve ended:\n{self.log}"
            assert time.monotonic() < deadline, f"serve does not answer:\n{self.log}"
            await asyncio.sleep(0.02)

    async def _answers(self) -> bool:
        try:
            return (await self.get("/health")).status == 200
        except aiohttp.ClientError:
            return False

    async def stop(self) -> int:
        """Ask it to end, as systemd would, and wait."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return await self.ended()

    async def ended(self, timeout_s: float = 40.0) -> int:
        assert self.process is not None
        return await asyncio.to_thread(self.process.wait, timeout_s)

    def kill(self) -> None:
        """SIGKILL: no farewell, no cleaning up."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(10)

    # -- clients ---------------------------------------------------------------------------------------------------

    async def get(self, path: str, **kwargs: Any) -> Answer:
        return await self.call("GET", path, **kwargs)

    async def call(self, method: str, path: str, **kwargs: Any) -> Answer:
        assert self.client is not None
        async with self.client.request(method, self.url + path, **kwargs) as answer:
            return await read(answer)

    async def chat(self, model: str, **body: Any) -> Answer:
        """A streamed chat, read to its end or to where it broke."""
        return await self.call("POST", "/v1/chat/completions", json=chat_body(model, **body))

    @asynccontextmanager
    async def streaming(self, model: str, **body: Any) -> AsyncIterator[aiohttp.ClientResponse]:
        """A streamed chat whose first bytes have come."""
        assert self.client is not None
        url = self.url + "/v1/chat/completions"
        async with self.client.post(url, json=chat_body(model, **body)) as answer:
            yield answer

    async def admin(self, method: str, path: str, **kwargs: Any) -> Answer:
        """A call on the admin socket."""
        connector = aiohttp.UnixConnector(str(self.home / "admin.sock"))
        async with (
            aiohttp.ClientSession(connector=connector) as client,
            client.request(method, f"http://gearshift/api/v1{path}", **kwargs) as answer,
        ):
            return await read(answer)

    async def rows(self) -> dict[str, Any]:
        """`ps` by variant."""
        status = (await self.admin("GET", "/status")).json
        return {row["variant"]: row for row in status["variants"]}

    async def row(self, variant: str) -> Any:
        return (await self.rows())[variant]

    async def until_state(self, variant: str, *states: str, timeout_s: float = 15.0) -> Any:
        """Wait until a variant is in one of these states; returns its row."""
        deadline = time.monotonic() + timeout_s
        while (row := await self.row(variant))["state"] not in states:
            assert time.monotonic() < deadline, f"{variant} is {row['state']}, not {states}:\n{self.log}"
            await asyncio.sleep(0.02)
        return row

    async def first_event(self, kind: str) -> Any:
        """The first event of one kind since the start; waits for it."""
        connector = aiohttp.UnixConnector(str(self.home / "admin.sock"))
        async with (
            asyncio.timeout(15),
            aiohttp.ClientSession(connector=connector) as client,
            client.get("http://gearshift/api/v1/events", params={"after": "0"}) as answer,
        ):
            async for line in answer.content:
                if line.startswith(b"data:") and (event := json.loads(line[5:]))["kind"] == kind:
                    return event
        raise AssertionError(f"no {kind} was told")

    async def seen(self, variant: str) -> Any:
        """What the variant's fake engine saw of its clients, asked of the engine itself."""
        assert self.client is not None
        port = (await self.row(variant))["port"]
        async with self.client.get(f"http://127.0.0.1:{port}/__seen") as answer:
            return await answer.json()


class StartServer(Protocol):
    """What the fixture `gearshift` gives: it writes a configuration and starts a server on it, ended with the test.

    ``variants`` are those of the model ``m``, ``top`` the other keys of the file; ``run`` False only writes it.
    """

    async def __call__(
        self,
        variants: Mapping[str, Any] | None = None,
        *,
        env: Mapping[str, str] | None = None,
        flags: tuple[str, ...] = (),
        run: bool = True,
        **top: Any,
    ) -> Gearshift: ...


def run_serve(server: Gearshift, *argv: str) -> tuple[int, str]:
    """Run `serve` to its end (it is expected to refuse); exit status and what it said on stderr."""
    done = subprocess.run(
        argv or [sys.executable, "-m", "gearshift", "serve", "--config", str(server.config)],
        env={**os.environ, "GEARSHIFT_HOME": str(server.home), **server.env},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return done.returncode, done.stderr


def chat_body(model: str, **body: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": "hi"}], "stream": True, **body}


async def bench(server: Gearshift, *arguments: str, patience_s: float = 60) -> Any:
    """The document of one `gearshift bench`, run as a user runs it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gearshift", "bench", *arguments, "--json",
        env={**os.environ, "GEARSHIFT_HOME": str(server.home), **server.env},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, told = await asyncio.wait_for(process.communicate(), patience_s)
    assert process.returncode == 0, told.decode()
    return json.loads(out)


async def read(answer: aiohttp.ClientResponse) -> Answer:
    """Read to the end, or keep what came before the connection broke."""
    body = b""
    try:
        async for piece in answer.content.iter_any():
            body += piece
    except aiohttp.ClientPayloadError:
        return Answer(answer.status, answer.headers, body.decode(errors="replace"), whole=False)
    return Answer(answer.status, answer.headers, body.decode(errors="replace"))


def alive(pid: int) -> bool:
    """Whether a process lives (a zombie does not)."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def marked(home: Path) -> list[int]:
    """Living processes whose command line or environment names this state folder: nothing may be left of them."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid() and alive(int(entry.name)):
            try:
                text = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
            if str(home).encode() in text:
                found.append(int(entry.name))
    return found


async def until(condition: Any, timeout_s: float = 15.0, what: str = "condition") -> None:
    """Wait for a plain condition with a deadline."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come true within {timeout_s} s"
        await asyncio.sleep(0.01)
