"""The bodies of each dialect: one whole answer, or the events of a stream."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from fakes.engine.options import Options

Event = tuple[str | None, object]  # event name (None = data only), document or a literal string
CALL: dict[str, Any] = {"name": "lookup", "arguments": '{"city": "Bonn"}'}


class Generation:
    """What one generation request asks for and what the script answers."""

    def __init__(self, options: Options, body: dict[str, Any]) -> None:
        self.model = str(body.get("model", options.served[0]))
        limits = [body.get(key) for key in ("max_tokens", "max_completion_tokens", "max_output_tokens", "n_predict")]
        self.count = min([options.tokens, *(limit for limit in limits if isinstance(limit, int))])
        self.reasoning = [f"r{number} " for number in range(options.reasoning)]
        self.tokens = [f"t{number} " for number in range(self.count)]
        self.per_chunk = max(1, options.tokens_per_chunk)
        self.wants_tool = bool(body.get("tools")) and body.get("tool_choice") != "none"
        self.prompt_tokens = max(1, len(json.dumps(body)) // 4)
        asked = bool((body.get("stream_options") or {}).get("include_usage"))
        self.usage_in_stream = options.usage == "always" or (options.usage == "asked" and asked)
        self.has_usage = options.usage != "never"

    @property
    def text(self) -> str:
        return "".join(self.tokens)

    def chunks(self, tokens: Sequence[str]) -> Iterator[str]:
        for start in range(0, len(tokens), self.per_chunk):
            yield "".join(tokens[start : start + self.per_chunk])

    def usage(self) -> dict[str, Any]:
        completion = self.count + len(self.reasoning)
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": completion,
            "total_tokens": self.prompt_tokens + completion,
            "prompt_tokens_details": {"cached_tokens": 0},
        }


def chat(job: Generation) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": job.text}
    if job.reasoning:
        message["reasoning_content"] = "".join(job.reasoning)
    if job.wants_tool:
        message |= {"content": None, "tool_calls": [{"id": "call_0", "type": "function", "function": CALL}]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if job.wants_tool else "stop"}
    return _completion(job, "chat.completion", [choice], with_usage=job.has_usage)


def chat_events(job: Generation) -> Iterator[Event]:
    def event(delta: dict[str, Any], finish: str | None = None) -> Event:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return None, _completion(job, "chat.completion.chunk", [choice], with_usage=False)

    yield event({"role": "assistant", "content": ""})
    for piece in job.chunks(job.reasoning):
        yield event({"reasoning_content": piece})
    if job.wants_tool:
        yield event(
            {"tool_calls": [{"index": 0, "id": "call_0", "type": "function", "function": CALL | {"arguments": ""}}]}
        )
        yield event({"tool_calls": [{"index": 0, "function": {"arguments": CALL["arguments"]}}]})
    else:
        yield from (event({"content": piece}) for piece in job.chunks(job.tokens))
    yield event({}, "tool_calls" if job.wants_tool else "stop")
    yield from _openai_end(job, "chat.completion.chunk")


def completion(job: Generation) -> dict[str, Any]:
    choice = {"index": 0, "text": job.text, "logprobs": None, "finish_reason": "length"}
    return _completion(job, "text_completion", [choice], with_usage=job.has_usage)


def completion_events(job: Generation) -> Iterator[Event]:
    for piece in job.chunks(job.tokens):
        choice = {"index": 0, "text": piece, "logprobs": None, "finish_reason": None}
        yield None, _completion(job, "text_completion", [choice], with_usage=False)
    last = {"index": 0, "text": "", "logprobs": None, "finish_reason": "length"}
    yield None, _completion(job, "text_completion", [last], with_usage=False)
    yield from _openai_end(job, "text_completion")


def _openai_end(job: Generation, kind: str) -> Iterator[Event]:
    if job.usage_in_stream:
        yield None, _completion(job, kind, [], with_usage=True)
    yield None, "[DONE]"


def _completion(job: Generation, kind: str, choices: list[Any], *, with_usage: bool) -> dict[str, Any]:
    document = {"id": "cmpl-fake", "object": kind, "created": 1, "model": job.model, "choices": choices}
    return document | ({"usage": job.usage()} if with_usage else {})


def responses(job: Generation, *, done: bool = True) -> dict[str, Any]:
    usage = {
        "input_tokens": job.prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": job.count,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": job.prompt_tokens + job.count,
    }
    return {
        "id": "resp_fake", "object": "response", "created_at": 1, "model": job.model, "parallel_tool_calls": False,
        "status": "completed" if done else "in_progress", "tool_choice": "auto", "tools": [], "metadata": {},
        "output": [_response_item(job, done=True)] if done else [], "usage": usage if done else None,
        "error": None, "incomplete_details": None, "instructions": None, "temperature": 0.0, "top_p": 1.0,
    }  # fmt: skip


def _response_item(job: Generation, *, done: bool) -> dict[str, Any]:
    state = "completed" if done else "in_progress"
    if job.wants_tool:
        call = CALL if done else CALL | {"arguments": ""}
        return {"id": "fc_0", "type": "function_call", "call_id": "call_0", "status": state, **call}
    content = [_response_part(job.text)] if done else []
    return {"id": "msg_0", "type": "message", "role": "assistant", "status": state, "content": content}


def _response_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}


def responses_events(job: Generation) -> Iterator[Event]:
    plain: tuple[tuple[str, dict[str, Any]], ...] = (
        ("response.created", {"response": responses(job, done=False)}),
        ("response.in_progress", {"response": responses(job, done=False)}),
        ("response.output_item.added", {"output_index": 0, "item": _response_item(job, done=False)}),
        *(_response_call() if job.wants_tool else _response_text(job)),
        ("response.output_item.done", {"output_index": 0, "item": _response_item(job, done=True)}),
        ("response.completed", {"response": responses(job)}),
    )
    for number, (kind, fields) in enumerate(plain):
        yield kind, {"type": kind, "sequence_number": number, **fields}


def _response_call() -> Iterator[tuple[str, dict[str, Any]]]:
    at = {"item_id": "fc_0", "output_index": 0}
    yield "response.function_call_arguments.delta", at | {"delta": CALL["arguments"]}
    yield "response.function_call_arguments.done", at | {"arguments": CALL["arguments"], "name": CALL["name"]}


def _response_text(job: Generation) -> Iterator[tuple[str, dict[str, Any]]]:
    at = {"item_id": "msg_0", "output_index": 0, "content_index": 0}
    yield "response.content_part.added", at | {"part": _response_part("")}
    for piece in job.chunks(job.tokens):
        yield "response.output_text.delta", at | {"delta": piece, "logprobs": []}
    yield "response.output_text.done", at | {"text": job.text, "logprobs": []}
    yield "response.content_part.done", at | {"part": _response_part(job.text)}


def messages(job: Generation) -> dict[str, Any]:
    tool = {"type": "tool_use", "id": "toolu_0", "name": CALL["name"], "input": json.loads(CALL["arguments"])}
    return {
        "id": "msg_fake", "type": "message", "role": "assistant", "model": job.model,
        "content": [tool if job.wants_tool else {"type": "text", "text": job.text}],
        "stop_reason": "tool_use" if job.wants_tool else "end_turn", "stop_sequence": None,
        "usage": {"input_tokens": job.prompt_tokens, "output_tokens": job.count},
    }  # fmt: skip


def messages_events(job: Generation) -> Iterator[Event]:
    whole = messages(job)
    opened = whole | {"content": [], "stop_reason": None, "usage": whole["usage"] | {"output_tokens": 0}}
    if job.wants_tool:
        block = whole["content"][0] | {"input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": CALL["arguments"]}]
    else:
        block = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": piece} for piece in job.chunks(job.tokens)]
    plain: list[dict[str, Any]] = [
        {"type": "message_start", "message": opened},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": whole["stop_reason"], "stop_sequence": None},
            "usage": {"output_tokens": job.count},
        },
        {"type": "message_stop"},
    ]
    yield from ((str(event["type"]), event) for event in plain)


def encode(event: Event) -> bytes:
    """One server-sent event."""
    name, document = event
    data = document if isinstance(document, str) else json.dumps(document)
    return ((f"event: {name}\n" if name else "") + f"data: {data}\n\n").encode()
