from __future__ import annotations

import asyncio
import io
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.front import Engine, Front
from gearshift.edge.errors import RefusedError
from gearshift.gateway.multipart import FieldFinder
from gearshift.gateway.upload import MEMORY_BYTES

BOUNDARY = "bOuNd"
MODEL = b'--bOuNd\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper\r\n'
FILE = (
    b'--bOuNd\r\ncontent-disposition: form-data; name="file"; filename="model"\r\n'
    b"X: y\r\n\r\n\r\n--bOuN\x00\xffd\r\n\r\n"
)
EMPTY = b'--bOuNd\r\nContent-Disposition: form-data; name="model"\r\n\r\n\r\n'
END = b"--bOuNd--\r\n"


@given(st.sampled_from([MODEL + FILE, FILE + MODEL, b"preamble\r\n" + FILE + FILE + MODEL]), st.integers(1, 50))
def test_the_field_is_found_however_the_body_is_split(parts: bytes, size: int) -> None:
    body = parts + END
    finder = FieldFinder(BOUNDARY, "model")
    for start in range(0, len(body), size):
        if finder.feed(body[start : start + size]):
            break
    assert finder.field is not None
    assert finder.field.value == "whisper"
    assert body[finder.field.start : finder.field.end] == b"whisper"


@given(st.integers(1, 50))
def test_a_body_without_the_field_ends_the_search(size: int) -> None:
    body = FILE + END
    finder = FieldFinder(BOUNDARY, "model")
    fed = [finder.feed(body[start : start + size]) for start in range(0, len(body), size)]
    assert any(fed)
    assert finder.field is None


def test_an_empty_field_has_an_empty_span() -> None:
    finder = FieldFinder(BOUNDARY, "model")
    assert finder.feed(EMPTY + END)
    assert finder.field is not None
    assert finder.field.start == finder.field.end == len(EMPTY) - 2


def test_an_endless_part_head_is_refused() -> None:
    finder = FieldFinder(BOUNDARY, "model")
    with pytest.raises(RefusedError):
        finder.feed(b"--bOuNd\r\nX: " + b"y" * 20_000)


def test_a_file_in_front_costs_no_memory() -> None:
    finder = FieldFinder(BOUNDARY, "model")
    finder.feed(FILE)
    for _ in range(100):
        finder.feed(b"x" * 65536)
    assert len(finder._buffer) < 100


def form(*fields: tuple[str, Any]) -> aiohttp.FormData:
    made = aiohttp.FormData()
    for name, value in fields:
        is_file = isinstance(value, bytes)
        made.add_field(name, io.BytesIO(value) if is_file else value, filename="f.wav" if is_file else None)
    return made


@pytest.mark.anyio
@pytest.mark.parametrize("audio", [b"RIFF" * 10, b"\r\n--" * 1_000_000], ids=["small", "spooled"])
@pytest.mark.parametrize("model_first", [True, False])
async def test_an_upload_arrives_with_only_its_model_changed(
    client: aiohttp.ClientSession,
    audio: bytes,
    model_first: bool,  # noqa: FBT001 - a parameter of pytest
) -> None:
    fields = [("model", "m"), ("file", audio), ("language", "de")]
    data = form(*(fields if model_first else reversed(fields)))
    async with client.post("/v1/audio/transcriptions", data=data) as response:
        assert response.status == 200
        parts = {part["name"]: part for part in (await response.json())["parts"]}
    assert parts["model"]["text"] == "served"
    assert parts["language"]["text"] == "de"
    assert parts["file"]["bytes"] == len(audio)
    assert (len(audio) > MEMORY_BYTES) == (audio != b"RIFF" * 10)


HALF = MODEL.replace(b"whisper", b"m") + b'--bOuNd\r\nContent-Disposition: form-data; name="file"\r\n\r\n'
MULTIPART = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}


@pytest.mark.anyio
@pytest.mark.parametrize("path", ["/v1/audio/transcriptions", "/upstream/m:v/v1/audio/transcriptions"])
async def test_no_place_is_taken_before_the_upload_is_whole(
    door: Front, client: aiohttp.ClientSession, path: str
) -> None:
    asked: list[int] = []

    async def body() -> Any:
        yield HALF
        async with client.get("/health") as response:  # once that is answered, the first half was taken in
            assert response.status == 200
        asked.append(len(door.broker.asked))
        yield b"x\r\n" + END

    async with client.post(path, data=body(), headers=MULTIPART) as response:
        assert response.status == 200
    assert asked == [0]
    assert len(door.broker.asked) == 1


@pytest.mark.anyio
async def test_an_upload_for_an_unknown_model_is_refused_before_it_is_whole(client: aiohttp.ClientSession) -> None:
    refused = asyncio.Event()

    async def body() -> Any:
        yield HALF.replace(b"\r\nm\r\n", b"\r\nnope\r\n")
        await refused.wait()

    async with client.post("/v1/audio/transcriptions", data=body(), headers=MULTIPART) as response:
        refused.set()
        assert response.status == 404


@pytest.mark.anyio
async def test_an_upload_of_unknown_length_reaches_the_engine_with_its_length(
    client: aiohttp.ClientSession, fake: Engine
) -> None:
    async def body() -> Any:
        yield HALF
        yield b"x\r\n" + END

    assert await post(client, body(), MULTIPART) == 200
    headers = {name.lower(): value for name, value in (await fake.seen())[-1]["headers"]}
    assert headers["content-length"] == str(len(HALF + END) + 3 + len("served") - len("m"))


async def post(client: aiohttp.ClientSession, data: Any, headers: dict[str, str]) -> int:
    async with client.post("/v1/audio/transcriptions", data=data, headers=headers) as response:
        return response.status


@pytest.mark.anyio
async def test_an_upload_that_grows_beyond_the_limit_is_a_413_and_never_queues(
    door: Front, client: aiohttp.ClientSession
) -> None:
    await door.reconfigure(body_limit_bytes=100_000)

    async def body() -> Any:
        yield HALF
        for _ in range(20):
            yield b"x" * 10_000

    assert await post(client, body(), MULTIPART) == 413
    assert door.broker.asked == []


@pytest.mark.anyio
async def test_a_multipart_body_without_a_boundary_is_refused(client: aiohttp.ClientSession) -> None:
    assert await post(client, b"x", {"Content-Type": "multipart/form-data"}) == 400
