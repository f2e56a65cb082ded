"""Raw bytes against the real server: smuggled, broken, endless and slow requests."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Self

import aiohttp
import pytest
import uvicorn
from uvicorn.server import ServerState

from fakes.broker import FakeBroker, upstream_at
from fakes.front import Engine, Front, ListSink, chat_variant
from fakes.serving import bound, until
from gearshift.domain.settings import Settings
from gearshift.edge.asgi import Receive, Scope, Send
from gearshift.gateway import create_gateway, server
from gearshift.gateway.server import HEAD_BYTES, GuardedProtocol, uvicorn_config

pytestmark = pytest.mark.anyio

GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
BODY = b'{"model":"m"}'
WHOLE = POST + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY


@dataclass
class Raw:
    """A bare connection to the server."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def all(self) -> bytes:
        """Everything until the server closes; a reset counts as a close."""
        got = b""
        async with asyncio.timeout(20):
            try:
                while chunk := await self.reader.read(65536):
                    got += chunk
            except ConnectionResetError:
                pass
        return got


@asynccontextmanager
async def connected(door: Front) -> AsyncIterator[Raw]:
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    try:
        yield Raw(reader, writer)
    finally:
        writer.close()


@pytest.fixture
def short_deadlines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD_S", 0.2)
    monkeypatch.setattr(server, "BODY_IDLE_S", 0.2)
    monkeypatch.setattr(server, "LINGER_S", 0.2)


REFUSED = {
    "length and chunked": POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": POST + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcd",
    "a length that is no number": POST + b"Content-Length: 4x\r\n\r\nabcd",
    "a negative length": POST + b"Content-Length: -1\r\n\r\n",
    "a bad chunk size": POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n",
    "a chunk longer than its size": POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n",
    "two codings": POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "an obscured coding": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a space before the colon": POST + b"Content-Length : 4\r\n\r\nabcd",
    "bare line feeds": GET.replace(b"\r\n", b"\n") + b"\n",
    "a bare carriage return in a value": GET + b"X: a\rb\r\n\r\n",
    "a null byte in a value": GET + b"X: a\x00b\r\n\r\n",
    "a folded header": GET + b"X: a\r\n b\r\n\r\n",
    "a line that is no request": b"hello\r\n\r\n",
    "a tunnel": b"CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_malformed_request_is_refused_and_the_connection_closed(door: Front, fake: Engine, name: str) -> None:
    async with connected(door) as raw:
        raw.writer.write(REFUSED[name])
        got = await raw.all()
    assert got == b"" or got.startswith(b"HTTP/1.1 400 ")
    assert got.count(b"HTTP/1.1") <= 1
    assert await fake.seen() == []


async def test_a_refusal_below_the_gateway_has_our_shape(door: Front) -> None:
    async with connected(door) as raw:
        raw.writer.write(REFUSED["two lengths"])
        got = await raw.all()
    assert b"content-type: application/json" in got
    assert b'"code":"invalid_http"' in got
    assert b'"src":"gearshift"' in got


@pytest.mark.parametrize("rest", [20_000_000, HEAD_BYTES + 10_000])
async def test_a_refusal_reaches_a_client_that_is_still_sending(door: Front, rest: int) -> None:
    async with connected(door) as raw:
        raw.writer.write(GET + b"X: ")
        raw.writer.write(b"a" * rest)
        await raw.writer.drain()
        got = await raw.reader.read()
    assert got.startswith(b"HTTP/1.1 431 ")
    assert got.endswith(b"}")


@pytest.mark.usefixtures("short_deadlines")
async def test_who_goes_on_sending_after_a_refusal_is_cut_off(door: Front) -> None:
    async with connected(door) as raw:
        raw.writer.write(REFUSED["two lengths"])
        await raw.reader.read()
        async with asyncio.timeout(10):
            await keep_sending(raw, b"a" * 1000)


@pytest.mark.parametrize("line", [b"X: " + b"a" * (HEAD_BYTES + 300_000), b"X: a\r\n" * 60_000, b"/" * 400_000])
async def test_endless_headers_are_refused(door: Front, line: bytes) -> None:
    async with connected(door) as raw:
        raw.writer.write(GET + line)
        got = await raw.all()
    assert got == b"" or got.startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 400 "))


async def test_endless_chunk_extensions_are_refused(door: Front) -> None:
    async with connected(door) as raw:
        raw.writer.write(POST + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"a" * (HEAD_BYTES + 300_000))
        got = await raw.all()
    assert got == b"" or got.startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 400 "))


@pytest.mark.usefixtures("short_deadlines")
@pytest.mark.parametrize("sent", [b"", GET, GET + b"X-Slow: a", b"\r\n"])
async def test_headers_that_never_end_are_closed(door: Front, sent: bytes) -> None:
    async with connected(door) as raw:
        raw.writer.write(sent)
        got = await raw.all()
    assert got == b"" or got.startswith(b"HTTP/1.1 408 ")


@pytest.mark.usefixtures("short_deadlines")
async def test_dripping_headers_do_not_move_the_deadline(door: Front) -> None:
    async with connected(door) as raw:
        raw.writer.write(GET)
        drip = asyncio.create_task(keep_sending(raw, b"X: y\r\n"))
        got = await raw.all()
        drip.cancel()
    assert got == b"" or got.startswith(b"HTTP/1.1 408 ")


async def keep_sending(raw: Raw, line: bytes) -> None:
    while not raw.writer.is_closing():
        raw.writer.write(line)
        await asyncio.sleep(0.03)


@pytest.mark.usefixtures("short_deadlines")
@pytest.mark.parametrize("second", [GET + b"X-Slow: a", b"\r\n"])
async def test_a_second_request_on_a_connection_is_watched_as_well(door: Front, second: bytes) -> None:
    async with connected(door) as raw:
        raw.writer.write(GET + b"\r\n")
        assert (await raw.reader.readuntil(b"}")).startswith(b"HTTP/1.1 200 OK")
        raw.writer.write(second)
        got = await raw.all()
    assert got == b"" or got.startswith(b"HTTP/1.1 408 ")


@pytest.mark.usefixtures("short_deadlines")
async def test_a_body_that_stalls_is_closed_and_never_reaches_the_engine(door: Front, fake: Engine) -> None:
    async with connected(door) as raw:
        raw.writer.write(POST + b"Content-Length: 100\r\n\r\n{")
        assert await raw.all() == b""
    assert await fake.seen() == []


@pytest.mark.usefixtures("short_deadlines")
async def test_a_long_answer_outlives_every_deadline_of_requests(door: Front, fake: Engine) -> None:
    await fake.set(tokens=20, token_ms=30)
    async with connected(door) as raw:
        raw.writer.write(WHOLE.replace(b"Host", b"Connection: close\r\nHost"))
        assert (await raw.all()).endswith(b"}")


@pytest.mark.usefixtures("short_deadlines")
async def test_a_websocket_outlives_every_deadline_of_requests(door: Front) -> None:
    async with aiohttp.ClientSession(door.url) as client, client.ws_connect("/upstream/m:v/ws") as socket:
        with pytest.raises(TimeoutError):
            await socket.receive(timeout=0.5)  # silence, and no close
        await socket.send_str("still here")
        assert await socket.receive_str(timeout=5) == "still here"


async def test_trailers_never_become_headers(door: Front, fake: Engine) -> None:
    async with connected(door) as raw:
        chunked = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\nX-Late: 1\r\n\r\n" % (len(BODY), BODY)
        raw.writer.write(POST + b"Connection: close\r\n" + chunked)
        assert (await raw.all()).startswith(b"HTTP/1.1 200 ")
    assert "x-late" not in [name.lower() for name, _ in (await fake.seen())[-1]["headers"]]


async def test_a_broken_second_chunk_cuts_the_request_off(door: Front, fake: Engine) -> None:
    async with connected(door) as raw:
        raw.writer.write(POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{ \r\nXX\r\n")
        assert (await raw.all()).count(b"HTTP/1.1 ") <= 1
    assert await fake.seen() == []


async def test_pipelined_requests_are_answered_in_order(door: Front) -> None:
    async with connected(door) as raw:
        raw.writer.write(GET + b"\r\n" + GET.replace(b"/health", b"/nothing") + b"Connection: close\r\n\r\n")
        got = await raw.all()
    assert re.findall(rb"HTTP/1.1 (\d+)", got) == [b"200", b"404"]


async def test_a_stream_cut_off_by_us_has_no_last_chunk(door: Front, fake: Engine) -> None:
    await fake.set(break_mid_stream=2)
    body = b'{"model":"m","stream":true}'
    async with connected(door) as raw:
        raw.writer.write(POST + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        got = await raw.all()
    assert b"transfer-encoding: chunked" in got
    assert b'"code":"engine_interrupted"' in got
    assert not got.endswith(b"0\r\n\r\n")


async def test_expect_100_is_answered_before_the_body(door: Front) -> None:
    async with connected(door) as raw:
        raw.writer.write(POST + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(BODY))
        assert await raw.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        raw.writer.write(BODY)
        assert (await raw.reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200")


class Starved(bytearray):
    """A buffer that cannot grow, as under a hard limit of memory."""

    def __iadd__(self, more: object) -> Self:
        raise MemoryError


async def test_want_of_memory_while_a_body_comes_in_is_no_fault_of_the_request() -> None:
    started = asyncio.Event()

    async def app(_scope: Scope, receive: Receive, _send: Send) -> None:
        receive.__self__.body = Starved()  # type: ignore[attr-defined] # uvicorn's request, where the body is kept
        started.set()
        while (await receive())["type"] != "http.disconnect":
            pass

    config = uvicorn_config(app, Settings())
    config.load()
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: GuardedProtocol(config, ServerState(), {}), sock=bound(None))
    async with listening:
        reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname()[:2])
        writer.write(POST + b"Content-Length: 10\r\n\r\n")
        await started.wait()
        writer.write(b"0123456789")
        answer = await reader.read()
        writer.close()
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b'"code":"out_of_memory"' in answer


async def test_an_oversized_body_is_refused_by_its_length_alone(door: Front) -> None:
    await door.reconfigure(body_limit_bytes=1000)
    async with connected(door) as raw:
        raw.writer.write(POST + b"Expect: 100-continue\r\nContent-Length: 1001\r\n\r\n")
        assert (await raw.reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 413")


async def test_uvicorn_serves_the_config_from_start_to_shutdown(fake: Engine) -> None:
    listener = bound(None)
    variant = chat_variant()
    gateway = create_gateway(FakeBroker(variant, upstream_at(fake.port)), Settings, ListSink())
    served = uvicorn.Server(uvicorn_config(gateway, Settings()))
    task = asyncio.create_task(served.serve(sockets=[listener]))
    await until(lambda: served.started)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1/chat/completions"
    async with aiohttp.ClientSession() as client, client.post(url, json={"messages": []}) as response:
        assert response.status == 200
        assert "server" not in response.headers
    served.should_exit = True
    await task
    listener.close()
