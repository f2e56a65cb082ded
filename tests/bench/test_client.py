"""The client against a server of known truth: dialects, wire shapes and what goes wrong."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from gearshift.bench.bodies import Ask, Dialect
from gearshift.bench.client import Client, TargetError, root_of
from gearshift.bench.sample import Sample
from gearshift.bench.truth import Script, TruthServer, serve

pytestmark = pytest.mark.anyio
FAST = Script(ttft_s=0.03, step_s=0.002)


@asynccontextmanager
async def running(script: Script) -> AsyncIterator[tuple[TruthServer, Client]]:
    async with serve(script) as server, Client(server.url, timeout_s=20) as client:
        yield server, client


async def answer(script: Script, *, output: int = 12, dialect: Dialect = "chat", prompt: str = "one two") -> Sample:
    async with running(script) as (_, client):
        call = Ask("truth", output, dialect).call(prompt)
        return await client.send(call, epoch=time.perf_counter())


@pytest.mark.parametrize("dialect", ["chat", "completions", "responses"])
@pytest.mark.parametrize("flavour", ["vllm", "llama.cpp"])
async def test_every_dialect_is_counted_by_the_servers_usage(dialect: Dialect, flavour: str) -> None:
    script = replace(FAST, flavour=flavour)  # type: ignore[arg-type]  # parametrised text is one of the two literals
    sample = await answer(script, dialect=dialect)

    assert sample.error is None
    assert sample.usage is not None
    assert (sample.usage.completion, sample.tokens, len(sample.chunk_s)) == (12, 12, 12)
    assert sample.text.split()[:3] == ["the", "quick", "study"]


async def test_an_early_role_chunk_is_not_the_first_token() -> None:
    sample = await answer(replace(FAST, role_chunk=True))
    assert sample.headers_s is not None
    assert sample.ttft_s is not None
    assert sample.headers_s < 0.03 <= sample.ttft_s


async def test_a_chunk_of_several_tokens_is_one_chunk_and_several_tokens() -> None:
    sample = await answer(replace(FAST, tokens_per_chunk=(4,)), output=12)
    assert len(sample.chunk_s) == 3
    assert sample.tokens == 12
    assert sample.tpot_s == pytest.approx((sample.chunk_s[-1] - sample.chunk_s[0]) / 11)
    assert len(sample.chunk_gaps_s) == 2


@pytest.mark.parametrize("flavour", ["vllm", "llama.cpp"])
async def test_reasoning_counts_for_the_first_token_and_not_for_the_first_answer(flavour: str) -> None:
    script = replace(FAST, reasoning=6, flavour=flavour)  # type: ignore[arg-type]  # as above
    sample = await answer(script)
    assert sample.reasoning_chunks == 6
    assert sample.ttft_s == sample.chunk_s[0]
    assert sample.first_answer_s == sample.chunk_s[6]


async def test_an_answer_of_reasoning_alone_is_whole_and_has_no_first_answer() -> None:
    sample = await answer(replace(FAST, reasoning=12))
    assert sample.ok
    assert sample.first_answer_s is None


async def test_tool_calls_are_tokens() -> None:
    sample = await answer(replace(FAST, tool=12))
    assert sample.ok
    assert sample.tool_chunks == 12
    assert sample.text == ""


async def test_token_ids_are_counted_where_the_server_sends_them() -> None:
    assert (await answer(replace(FAST, token_ids=True, tokens_per_chunk=(3,)))).token_ids == 12


async def test_llama_servers_own_timings_are_kept() -> None:
    sample = await answer(replace(FAST, flavour="llama.cpp"))
    assert sample.timings is not None
    assert sample.timings.tokens == 12
    assert sample.timings.decode_s == pytest.approx(11 * 0.002)


async def test_a_stream_that_breaks_off_is_an_error_with_the_chunks_it_had() -> None:
    sample = await answer(replace(FAST, die_after=3))
    assert not sample.ok
    assert sample.error is not None
    assert len(sample.chunk_s) == 3


async def test_a_refused_request_is_an_error_with_the_servers_words() -> None:
    sample = await answer(replace(FAST, context=10), output=64)
    assert sample.status == 400
    assert sample.error is not None
    assert "exceeds the context" in sample.error


async def test_no_answer_within_the_deadline_is_an_error() -> None:
    async with serve(replace(FAST, ttft_s=30)) as server, Client(server.url, timeout_s=0.05) as client:
        sample = await client.send(Ask("truth", 4).call("hello"), epoch=time.perf_counter())
    assert sample.error == "no end within 0.05 s"


async def test_nobody_listening_is_an_error_of_the_sample_and_raised_by_control_calls() -> None:
    async with Client("http://127.0.0.1:9") as client:
        sample = await client.send(Ask("truth", 4).call("hello"), epoch=time.perf_counter())
        assert sample.error is not None
        with pytest.raises(TargetError, match="does not answer"):
            await client.get_text("/metrics")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"json": {"error": {"message": "it was stopped"}}}, "answers 503: it was stopped"),
        ({"json": {"error": "Loading model"}}, 'answers 503: {"error": "Loading model"}'),
        ({"text": "busy\n"}, "answers 503: busy"),
        ({}, "answers 503: without a word"),
    ],
)
async def test_a_control_call_that_is_refused_tells_the_servers_words(body: dict[str, Any], words: str) -> None:
    async def refuse(_: web.Request) -> web.Response:
        return web.json_response(body["json"], status=503) if "json" in body else web.Response(status=503, **body)

    app = web.Application()
    app.router.add_get("/metrics", refuse)
    async with TestServer(app) as server, Client(str(server.make_url(""))) as client:
        with pytest.raises(TargetError, match=re.escape(words)):
            await client.get_text("/metrics")


async def test_an_answer_that_is_not_streamed_has_one_stamp() -> None:
    async with running(FAST) as (_, client):
        call = Ask("truth", 4, extra={"stream": False}).call("hello")
        sample = await client.send(call, epoch=time.perf_counter())
    assert sample.error is None
    assert len(sample.chunk_s) == 1
    assert sample.tokens == 4
    assert sample.tpot_s is None


async def test_a_page_the_server_does_not_have_is_none() -> None:
    async with running(FAST) as (_, client):
        assert await client.get_json("/props") is None
        assert await client.post_json("/nothing", {}) is None


@pytest.mark.parametrize("url", ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/"])
def test_a_url_is_taken_with_or_without_v1(url: str) -> None:
    assert root_of(url) == "http://h:1"


def test_token_ids_need_the_completions_dialect() -> None:
    with pytest.raises(ValueError, match="takes text"):
        Ask("m", 4, "chat").call([1, 2, 3])


async def test_a_kept_connection_that_the_server_closed_meanwhile_costs_nothing() -> None:
    """The server answers, keeps the connection, and closes it at the first byte of the next request."""
    answered = 0

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal answered
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        event = b'data: {"choices": [{"text": "x"}]}\n\ndata: [DONE]\n\n'
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n")
        writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(event), event))
        answered += 1
        await reader.read(1)
        writer.close()

    server = await asyncio.start_server(serve_one, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, Client(url) as client:
        call = Ask("m", 1, "completions").call("x")
        several = await asyncio.gather(*(client.send(call, epoch=time.perf_counter()) for _ in range(3)))
        last = await client.send(call, epoch=time.perf_counter())  # three that were closed meanwhile are kept
    assert [sample.error for sample in (*several, last)] == [None] * 4
    assert answered == 4


async def test_a_body_that_stays_open_behind_its_end_mark_is_not_waited_for() -> None:
    """Some proxies keep a stream open, with comments, when its engine has said `[DONE]`."""

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        event = b'data: {"choices": [{"delta": {"content": "x"}}]}\n\ndata: [DONE]\n\n'
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + event)
        with suppress(ConnectionError):
            for _ in range(100):
                writer.write(b": beat\n\n")
                await writer.drain()
                await asyncio.sleep(0.2)
        writer.close()
        gone.set()

    gone = asyncio.Event()
    server = await asyncio.start_server(serve_one, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, Client(url, timeout_s=20) as client:
        sample = await client.send(Ask("m", 1).call("hi"), epoch=time.perf_counter())
        await gone.wait()
    assert sample.ok
    assert sample.ended_s < 10


async def test_streams_are_not_asked_to_be_packed() -> None:
    """A server or proxy that packs them gathers them too, and the client stamps what comes without unpacking it."""
    heads: list[bytes] = []

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).lower())
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve_one, "127.0.0.1", 0)
    async with server, Client(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") as client:
        await client.send(Ask("m", 1).call("hi"), epoch=time.perf_counter())
    assert b"\r\naccept-encoding: identity\r\n" in heads[0]
