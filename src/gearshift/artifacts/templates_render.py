"""Trying a chat template on a conversation whose parts can be told apart in what comes out.

The environment is the one transformers and vLLM render in: sandboxed, trimmed blocks, ``tojson`` without escapes,
``raise_exception``, ``strftime_now``. llama.cpp reads the same language with an interpreter of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NoReturn

from gearshift.artifacts.templates import Rendering

_MOST_CHARS = 1_000_000  # of a sample conversation's rendering; a template that writes more never ends
_SYSTEM, _QUESTION, _THOUGHT = "sample-system-words", "sample-question", "sample-reasoning"
_CITY, _WEATHER, _TOOL = "Sample City", "sample-weather-answer", "sample_weather"

Message = Mapping[str, Any]

PLAIN: Sequence[Message] = (
    {"role": "system", "content": _SYSTEM},
    {"role": "user", "content": _QUESTION},
)
WITH_TOOL_CALL: Sequence[Message] = (
    *PLAIN,
    {
        "role": "assistant",
        "content": "",
        "reasoning_content": _THOUGHT,
        "reasoning": _THOUGHT,  # newer templates read this name
        "tool_calls": [
            {"id": "call00001", "type": "function", "function": {"name": _TOOL, "arguments": {"city": _CITY}}}
        ],
    },
    {"role": "tool", "name": _TOOL, "tool_call_id": "call00001", "content": _WEATHER},
)
TOOLS: Sequence[Message] = (
    {
        "type": "function",
        "function": {
            "name": _TOOL,
            "description": "Tells the weather.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    },
)


def try_template(text: str) -> Rendering:
    """What survives a template. Never raises: a template that cannot be rendered is a result."""
    thinks = "reasoning" in text or "think" in text
    plain, failure = _rendered(text, PLAIN, None)
    if failure:
        return Rendering(failure=failure, thinks=thinks)
    called, tool_failure = _rendered(text, WITH_TOOL_CALL, TOOLS)
    lost = (*_lost_of_plain(plain), *(() if tool_failure else _lost_of_tools(called, thinks=thinks)))
    return Rendering(tool_failure=tool_failure, lost=lost, thinks=thinks)


def _lost_of_plain(shown: str) -> Iterator[str]:
    for name, word in (("the system prompt", _SYSTEM), ("the user's message", _QUESTION)):
        if word not in shown:
            yield name


def _lost_of_tools(shown: str, *, thinks: bool) -> Iterator[str]:
    parts = {
        "the tool's definition": "Tells the weather.",
        "the tool call's arguments": _CITY,
        "the tool's answer": _WEATHER,
    }
    for name, word in parts.items():
        if word not in shown:
            yield name
    if thinks and _THOUGHT not in shown:
        yield "the reasoning before a tool call"


def _rendered(text: str, messages: Sequence[Message], tools: Sequence[Message] | None) -> tuple[str, str | None]:
    """The text, or why there is none: whatever a stranger's template raises, in its own words."""
    try:
        return _render(text, messages, tools), None
    except Exception as error:  # noqa: BLE001 - a template is a program that anybody wrote
        return "", f"{type(error).__name__}: {error}"


def _render(text: str, messages: Sequence[Message], tools: Sequence[Message] | None) -> str:
    from jinja2.ext import loopcontrols  # noqa: PLC0415 - only the doctor renders templates
    from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: PLC0415 - likewise

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = _to_json
    environment.globals |= {"raise_exception": _raise, "strftime_now": _now}
    given = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "</s>"}
    pieces = environment.from_string(text).generate(
        messages=messages, tools=tools, add_generation_prompt=True, documents=None, **given
    )
    return _bounded(pieces)


def _bounded(pieces: Iterator[str]) -> str:
    shown: list[str] = []
    length = 0
    for piece in pieces:
        shown.append(piece)
        length += len(piece)
        if length > _MOST_CHARS:
            msg = f"it wrote more than {_MOST_CHARS} characters for a short conversation"
            raise ValueError(msg)
    return "".join(shown)


def _to_json(value: Any, indent: int | None = None, **options: Any) -> str:
    del options  # separators and sort_keys do not decide what survives
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _raise(message: str) -> NoReturn:
    raise ValueError(message)


def _now(form: str) -> str:
    return datetime.now(UTC).strftime(form)
