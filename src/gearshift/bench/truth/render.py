"""Events as bytes in each dialect. Built by joining fixed pieces: rendering must never be the bottleneck."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

from gearshift.bench.truth.script import Script

Part = Literal["reasoning", "answer", "tool"]
Dialect = Literal["chat", "completions", "responses"]

PATHS: dict[str, Dialect] = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "completions",
    "/v1/responses": "responses",
}
_RESPONSE_EVENT = {
    "reasoning": "response.reasoning_text.delta",
    "answer": "response.output_text.delta",
    "tool": "response.function_call_arguments.delta",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the last events of an answer report."""

    prompt: int
    completion: int
    cached: int
    reasoning: int
    drafted: int
    accepted: int
    prefill_s: float
    decode_s: float


def text_event(script: Script, dialect: Dialect, part: Part, text: str, ids: int) -> bytes:
    """One event that carries ``text`` (plain words: nothing in it needs escaping) of ``ids`` tokens."""
    if dialect == "responses":
        return _event('{"type":"' + _RESPONSE_EVENT[part] + '","delta":"' + text + '"}')
    tokens = ',"token_ids":[' + ",".join(["1"] * ids) + "]" if script.token_ids else ""
    if dialect == "completions":
        return _event('{"choices":[{"index":0,"text":"' + text + '"' + tokens + "}]}")
    if part == "tool":
        delta = '{"tool_calls":[{"index":0,"function":{"arguments":"' + text + '"}}]}'
    else:
        delta = '{"' + _chat_key(script, part) + '":"' + text + '"}'
    return _event('{"choices":[{"index":0,"delta":' + delta + tokens + "}]}")


def first_event(dialect: Dialect) -> bytes:
    """The event without a token that servers send before the prefill."""
    return {
        "chat": _event('{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}'),
        "completions": _event('{"choices":[{"index":0,"text":""}]}'),
        "responses": _event('{"type":"response.created","response":{"status":"in_progress"}}'),
    }[dialect]


def last_events(script: Script, dialect: Dialect, outcome: Outcome) -> bytes:
    """Finish reason, usage and end mark. llama-server's completions carry usage in the event that has choices."""
    usage = _usage(dialect, outcome)
    if dialect == "responses":
        return _event(json.dumps({"type": "response.completed", "response": {"status": "completed", "usage": usage}}))
    finish: dict[str, object] = {"index": 0, "finish_reason": "length"}
    finish["text" if dialect == "completions" else "delta"] = "" if dialect == "completions" else {}
    timings = {"timings": _timings(outcome)} if script.flavour == "llama.cpp" else {}
    done = b"data: [DONE]\n\n"
    if script.flavour == "llama.cpp" and dialect == "completions":
        return _event(json.dumps({"choices": [finish], "usage": usage, **timings})) + done
    return (
        _event(json.dumps({"choices": [finish]})) + _event(json.dumps({"choices": [], "usage": usage} | timings)) + done
    )


def _chat_key(script: Script, part: Part) -> str:
    if part == "answer":
        return "content"
    return "reasoning" if script.flavour == "vllm" else "reasoning_content"


def _usage(dialect: Dialect, outcome: Outcome) -> dict[str, object]:
    read, written = ("input", "output") if dialect == "responses" else ("prompt", "completion")
    return {
        f"{read}_tokens": outcome.prompt,
        f"{written}_tokens": outcome.completion,
        "total_tokens": outcome.prompt + outcome.completion,
        f"{read}_tokens_details": {"cached_tokens": outcome.cached},
        f"{written}_tokens_details": {"reasoning_tokens": outcome.reasoning},
    }


def _timings(outcome: Outcome) -> dict[str, object]:
    speculation = {"draft_n": outcome.drafted, "draft_n_accepted": outcome.accepted} if outcome.drafted else {}
    return {
        "cache_n": outcome.cached,
        "prompt_n": outcome.prompt - outcome.cached,
        "prompt_ms": outcome.prefill_s * 1000,
        "predicted_n": outcome.completion,
        "predicted_ms": outcome.decode_s * 1000,
        **speculation,
    }


def _event(payload: str) -> bytes:
    return b"data: " + payload.encode() + b"\n\n"
