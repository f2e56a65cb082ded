"""The OpenAI and Anthropic SDKs as their users have them, through the gateway, unmodified."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator

import anthropic
import openai
import pytest

from fakes.front import Engine, Front
from gearshift.domain.errors import Failure, LoadFailedError, QueueFullError
from gearshift.domain.settings import ApiKey

pytestmark = pytest.mark.anyio

TEXT = "t0 t1 t2 t3 "
PARAMETERS: dict[str, object] = {"type": "object", "properties": {"city": {"type": "string"}}}


@pytest.fixture
async def gpt(door: Front) -> AsyncIterator[openai.AsyncOpenAI]:
    await door.reconfigure(api_keys=(ApiKey("laptop", "s3cret"),), keepalive_s=0.02)
    async with openai.AsyncOpenAI(base_url=f"{door.url}/v1", api_key="s3cret") as client:
        yield client


@pytest.fixture
async def claude(door: Front) -> AsyncIterator[anthropic.AsyncAnthropic]:
    await door.reconfigure(api_keys=(ApiKey("laptop", "s3cret"),), keepalive_s=0.02)
    async with anthropic.AsyncAnthropic(base_url=door.url, api_key="s3cret") as client:
        yield client


def grant_late(door: Front) -> None:
    """The lease comes after some keep-alive comments."""
    door.broker.open = False
    loop = asyncio.get_running_loop()

    def later() -> None:
        if door.broker.tickets:
            door.broker.grant(door.broker.tickets[-1], load_s=0.1)
        else:
            loop.call_later(0.07, later)

    loop.call_later(0.07, later)


async def test_the_openai_sdk_reads_a_chat_answer(gpt: openai.AsyncOpenAI) -> None:
    answer = await gpt.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
    assert answer.choices[0].message.content == TEXT
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 4


async def test_the_openai_sdk_streams_a_chat_while_the_model_loads(gpt: openai.AsyncOpenAI, door: Front) -> None:
    grant_late(door)
    stream = await gpt.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}], stream=True)
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == TEXT
    assert all(chunk.usage is None for chunk in chunks)


async def test_the_openai_sdk_gets_the_usage_that_it_asked_a_stream_for(gpt: openai.AsyncOpenAI) -> None:
    stream = await gpt.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "hi"}], stream=True, stream_options={"include_usage": True}
    )
    usage = [chunk.usage async for chunk in stream][-1]
    assert usage is not None
    assert usage.completion_tokens == 4


async def test_the_openai_sdk_gets_the_arguments_of_a_tool_call(gpt: openai.AsyncOpenAI) -> None:
    answer = await gpt.chat.completions.create(
        model="m",
        messages=[{"role": "user", "content": "hi"}],
        tools=[{"type": "function", "function": {"name": "lookup", "parameters": PARAMETERS}}],
    )
    calls = answer.choices[0].message.tool_calls
    assert calls is not None
    assert calls[0].type == "function"
    assert calls[0].function.arguments == '{"city": "Bonn"}'


async def test_the_openai_sdk_reads_completions_embeddings_and_models(gpt: openai.AsyncOpenAI) -> None:
    assert (await gpt.completions.create(model="m", prompt="hi")).choices[0].text == TEXT
    embedding = await gpt.embeddings.create(model="m", input=["a", "b"], encoding_format="float")
    assert len(embedding.data) == 2
    assert [model.id async for model in gpt.models.list()] == ["m", "m:v"]
    assert (await gpt.models.retrieve("m:v")).owned_by == "gearshift"


async def test_the_openai_sdk_reads_a_response(gpt: openai.AsyncOpenAI) -> None:
    assert (await gpt.responses.create(model="m", input="hi")).output_text == TEXT


async def test_the_openai_sdk_streams_a_response_while_the_model_loads(gpt: openai.AsyncOpenAI, door: Front) -> None:
    grant_late(door)
    stream = await gpt.responses.create(model="m", input="hi", stream=True)
    events = [event async for event in stream]
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == TEXT
    assert events[-1].type == "response.completed"


async def test_the_openai_sdk_transcribes_an_upload(gpt: openai.AsyncOpenAI) -> None:
    answer = await gpt.audio.transcriptions.create(model="m", file=("a.wav", b"RIFF" * 100))
    assert answer.text == "fake transcript"


async def test_refusals_have_their_classes_in_the_openai_sdk(gpt: openai.AsyncOpenAI, door: Front) -> None:
    with pytest.raises(openai.NotFoundError, match="nope"):
        await gpt.chat.completions.create(model="nope", messages=[{"role": "user", "content": "hi"}])
    door.broker.refusal = QueueFullError("the queue of m:v is full", retry_after_s=1)
    with pytest.raises(openai.RateLimitError) as caught:
        await gpt.with_options(max_retries=0).responses.create(model="m", input="hi")
    assert caught.value.response.headers["retry-after"] == "1"
    with pytest.raises(openai.AuthenticationError):
        await gpt.with_options(api_key="wrong").models.list()


async def test_a_failed_load_is_not_retried_by_the_sdk(gpt: openai.AsyncOpenAI, door: Front) -> None:
    door.broker.refusal = LoadFailedError("m:v could not be loaded: no such file", failure=Failure("no such file"))
    with pytest.raises(openai.InternalServerError, match="no such file"):
        await gpt.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
    assert len(door.broker.asked) == 1


async def test_the_openai_sdk_sees_an_engine_die_in_a_chat_stream(gpt: openai.AsyncOpenAI, fake: Engine) -> None:
    await fake.set(die_mid_stream=3)
    stream = await gpt.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}], stream=True)
    with pytest.raises(openai.APIError, match="went away"):
        await drain(stream)


async def test_the_openai_sdk_sees_an_engine_die_in_a_responses_stream(gpt: openai.AsyncOpenAI, fake: Engine) -> None:
    await fake.set(die_mid_stream=3)
    stream = await gpt.responses.create(model="m", input="hi", stream=True)
    with pytest.raises(openai.APIError, match="went away"):
        await drain(stream)


async def drain(stream: AsyncIterable[object]) -> None:
    async for _ in stream:
        pass


async def test_the_anthropic_sdk_reads_a_message(claude: anthropic.AsyncAnthropic) -> None:
    answer = await claude.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "hi"}])
    assert answer.content[0].type == "text"
    assert answer.content[0].text == TEXT
    assert answer.usage.output_tokens == 4


async def test_the_anthropic_sdk_streams_a_message_while_the_model_loads(
    claude: anthropic.AsyncAnthropic, door: Front
) -> None:
    grant_late(door)
    async with claude.messages.stream(model="m", max_tokens=9, messages=[{"role": "user", "content": "hi"}]) as stream:
        assert "".join([text async for text in stream.text_stream]) == TEXT
        assert (await stream.get_final_message()).stop_reason == "end_turn"


async def test_the_anthropic_sdk_gets_the_input_of_a_tool_use(claude: anthropic.AsyncAnthropic) -> None:
    answer = await claude.messages.create(
        model="m",
        max_tokens=9,
        messages=[{"role": "user", "content": "hi"}],
        tools=[{"name": "lookup", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}],
    )
    assert answer.stop_reason == "tool_use"
    assert answer.content[0].type == "tool_use"
    assert answer.content[0].input == {"city": "Bonn"}


async def test_the_anthropic_sdk_counts_tokens_and_lists_models(claude: anthropic.AsyncAnthropic) -> None:
    count = await claude.messages.count_tokens(model="m", messages=[{"role": "user", "content": "hi"}])
    assert count.input_tokens > 0
    assert [model.id async for model in await claude.models.list()] == ["m", "m:v"]


async def test_refusals_have_their_classes_in_the_anthropic_sdk(claude: anthropic.AsyncAnthropic, door: Front) -> None:
    with pytest.raises(anthropic.NotFoundError, match="nope"):
        await claude.messages.create(model="nope", max_tokens=9, messages=[{"role": "user", "content": "hi"}])
    door.broker.refusal = QueueFullError("the queue of m:v is full", retry_after_s=1)
    with pytest.raises(anthropic.RateLimitError):
        await claude.with_options(max_retries=0).messages.create(
            model="m", max_tokens=9, messages=[{"role": "user", "content": "hi"}]
        )


async def test_the_anthropic_sdk_sees_an_engine_die_mid_stream(claude: anthropic.AsyncAnthropic, fake: Engine) -> None:
    await fake.set(die_mid_stream=3)
    stream = await claude.messages.create(
        model="m", max_tokens=9, messages=[{"role": "user", "content": "hi"}], stream=True
    )
    with pytest.raises(anthropic.APIError, match="went away"):
        await drain(stream)
