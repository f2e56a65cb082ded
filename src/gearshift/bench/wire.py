"""What a stream event says, in the three dialects (chat, completions, responses) and two reasoning spellings.

Facts: vLLM sends ``reasoning``, llama-server and sglang ``reasoning_content``; llama-server's completions put usage
into the same event as choices and add ``timings`` to the last one; a first event may be empty or carry a role only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from gearshift.bench.sample import EngineTimings, Usage


@dataclass(slots=True)
class Event:
    """One event, boiled down. ``visible`` is True when it carries a token somebody could see."""

    answer: str = ""
    reasoning: str = ""
    tool: bool = False
    token_ids: int | None = None
    usage: Usage | None = None
    timings: EngineTimings | None = None
    finish: str | None = None
    error: str | None = None

    @property
    def visible(self) -> bool:
        return bool(self.answer or self.reasoning or self.tool or self.token_ids)


class _Details(msgspec.Struct):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    input_tokens: int | None = None  # responses dialect
    output_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None
    input_tokens_details: _Details | None = None
    output_tokens_details: _Details | None = None


class _Timings(msgspec.Struct):
    prompt_n: int = 0
    prompt_ms: float = 0.0
    predicted_n: int = 0
    predicted_ms: float = 0.0
    cache_n: int | None = None
    draft_n: int | None = None
    draft_n_accepted: int | None = None


class _Delta(msgspec.Struct):
    content: Any = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: Any = None
    function_call: Any = None
    refusal: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    message: _Delta | None = None  # an answer that is not streamed
    text: str | None = None
    token_ids: list[int] | None = None
    finish_reason: str | None = None


class _Response(msgspec.Struct):
    usage: _Usage | None = None
    status: str | None = None
    error: Any = None


class _Payload(msgspec.Struct):
    type: str | None = None
    delta: Any = None
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    timings: _Timings | None = None
    response: _Response | None = None
    error: Any = None
    message: Any = None  # the responses dialect's error event


_decode = msgspec.json.Decoder(_Payload).decode


def read_event(payload: bytes) -> Event:
    """The event in ``payload``. A payload that is no JSON object of these shapes is an error event."""
    try:
        wire = _decode(payload)
    except msgspec.MsgspecError as error:
        return Event(error=f"unreadable event: {error}: {payload[:120]!r}")
    event = Event(error=_error(wire))
    if wire.type is not None and wire.type.startswith("response."):
        _read_response(wire, event)
    for choice in wire.choices or ():
        _read_choice(choice, event)
    if wire.usage is not None:
        event.usage = _usage(wire.usage)
    if wire.timings is not None:
        event.timings = _timings(wire.timings)
    return event


def _read_choice(choice: _Choice, event: Event) -> None:
    delta = choice.delta or choice.message
    if delta is not None:
        event.answer += delta.content if isinstance(delta.content, str) else ""
        event.answer += delta.refusal or ""
        event.reasoning += delta.reasoning or delta.reasoning_content or ""
        event.tool = event.tool or bool(delta.tool_calls or delta.function_call)
    event.answer += choice.text or ""
    if choice.token_ids is not None:
        event.token_ids = (event.token_ids or 0) + len(choice.token_ids)
    event.finish = choice.finish_reason or event.finish


def _read_response(wire: _Payload, event: Event) -> None:
    kind = wire.type or ""
    text = wire.delta if isinstance(wire.delta, str) else ""
    if kind == "response.output_text.delta":
        event.answer = text
    elif kind.startswith("response.reasoning") and kind.endswith(".delta"):
        event.reasoning = text
    elif kind == "response.function_call_arguments.delta":
        event.tool = bool(text)
    if wire.response is not None:
        event.usage = _usage(wire.response.usage) if wire.response.usage else None
        if kind in {"response.completed", "response.incomplete"}:
            event.finish = wire.response.status


def _error(wire: _Payload) -> str | None:
    if wire.error is not None:
        return _message(wire.error)
    if wire.type == "error":
        return _message(wire.message or "error event")
    if wire.response is not None and wire.response.error is not None:
        return _message(wire.response.error)
    return None


def _message(error: object) -> str:
    if isinstance(error, dict):
        return str(error.get("message", error))
    return str(error)


def _usage(wire: _Usage) -> Usage | None:
    prompt = wire.prompt_tokens if wire.prompt_tokens is not None else wire.input_tokens
    completion = wire.completion_tokens if wire.completion_tokens is not None else wire.output_tokens
    if prompt is None or completion is None:
        return None
    read = wire.prompt_tokens_details or wire.input_tokens_details
    written = wire.completion_tokens_details or wire.output_tokens_details
    return Usage(
        prompt,
        completion,
        cached=read.cached_tokens if read else None,
        reasoning=written.reasoning_tokens if written else None,
    )


def _timings(wire: _Timings) -> EngineTimings:
    return EngineTimings(
        prompt_tokens=wire.prompt_n,
        prompt_s=wire.prompt_ms / 1000,
        tokens=wire.predicted_n,
        decode_s=wire.predicted_ms / 1000,
        cached_tokens=wire.cache_n,
        draft_tokens=wire.draft_n,
        accepted_tokens=wire.draft_n_accepted,
    )
