"""Which path answers what."""

import time
from collections.abc import Callable, Iterator
from typing import Any

from fakes.engine import dialects, process
from fakes.engine.dialects import Event, Generation
from fakes.engine.gpu import hold
from fakes.engine.http import Connection, GoneError, Request
from fakes.engine.state import State, metrics
from fakes.engine.websocket import echo

Whole = Callable[[Generation], dict[str, Any]]
Events = Callable[[Generation], Iterator[Event]]

GENERATIONS: dict[str, tuple[Whole, Events]] = {
    "/v1/chat/completions": (dialects.chat, dialects.chat_events),
    "/v1/completions": (dialects.completion, dialects.completion_events),
    "/v1/responses": (dialects.responses, dialects.responses_events),
    "/v1/messages": (dialects.messages, dialects.messages_events),
}
MULTIPART = ("/v1/audio/transcriptions", "/v1/audio/translations", "/v1/images/edits", "/v1/images/variations")


def answer(state: State, connection: Connection, request: Request) -> bool:
    """Answer one request; False when the connection must not be used again."""
    if request.path.startswith("/__"):
        _control(state, connection, request)
        return True
    if request.path == state.options.health_path:
        _health(state, connection)
        return True
    state.saw(request)
    if not state.loaded.is_set():
        loading = {"code": 503, "message": "Loading model", "type": "unavailable_error"}
        connection.answer_json({"error": loading}, 503)
        return True
    if request.path == "/ws":
        state.closed_with = echo(connection, request)
        return False
    if request.path in GENERATIONS or request.path in COUNTED:
        return _generate(state, connection, request)
    _plain(state, connection, request)
    return True


def _control(state: State, connection: Connection, request: Request) -> None:
    if request.path == "/__set":
        vars(state.options).update(request.json())
    elif request.method == "DELETE":
        state.seen = []
    connection.answer_json(state.report())


def _health(state: State, connection: Connection) -> None:
    state.counts["health_checks"] += 1
    if not state.options.dead_health and state.hangs(state.counts["started"] + 1) and not state.sleeping:
        _hang(connection)
    if state.loaded.is_set():
        connection.answer_json({"status": "ok"})
    else:
        connection.answer_json({"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}, 503)


def _hang(connection: Connection) -> None:
    """Until the peer gives up; raises GoneError then."""
    while True:
        connection.rest(3600)


def _generate(state: State, connection: Connection, request: Request) -> bool:
    number = state.begin()
    try:
        fit = _answer_generation(state, connection, request, number)
    except GoneError:
        state.end("cancelled")
        raise
    return fit


def _answer_generation(state: State, connection: Connection, request: Request, number: int) -> bool:
    options, body = state.options, request.json()
    if state.hangs(number) and options.dead_health != "500":
        _hang(connection)
    status = 500 if state.hangs(number) else options.answer_status
    if status == 200 and "model" in body and body["model"] not in options.served:
        status = 404
    job = Generation(options, body)
    if status != 200:
        why = f"fake engine refuses model {job.model!r}" + "!" * options.answer_words
        connection.answer_json(_error(status, why), status)
        state.end("finished")
        return True
    connection.rest(options.prompt_ms / 1000)
    if request.path in COUNTED:
        connection.answer_json(COUNTED[request.path](job, body))
        state.end("finished", job.prompt_tokens)
        return True
    whole, events = GENERATIONS[request.path]
    if body.get("stream"):
        done = _stream(state, connection, events(job))
        state.end("finished" if done else "cancelled", job.prompt_tokens, job.count)
        return done
    connection.rest(options.token_ms * job.count / 1000)
    connection.answer_json(whole(job))
    state.end("finished", job.prompt_tokens, job.count)
    return True


def _stream(state: State, connection: Connection, events: Iterator[Event]) -> bool:
    options = state.options
    connection.begin_stream()
    for sent, event in enumerate(events):
        if sent == options.die_mid_stream:
            process.die(-9)
        if sent == options.break_mid_stream:
            return False
        connection.chunk(dialects.encode(event))
        connection.rest(options.token_ms * options.tokens_per_chunk / 1000)
    connection.end_stream()
    return True


def _embeddings(job: Generation, body: dict[str, Any]) -> dict[str, Any]:
    inputs = body.get("input", "")
    count = len(inputs) if isinstance(inputs, list) else 1
    data = [{"object": "embedding", "index": index, "embedding": [0.1, 0.2, 0.3]} for index in range(count)]
    usage = {"prompt_tokens": job.prompt_tokens, "total_tokens": job.prompt_tokens}
    return {"object": "list", "model": job.model, "data": data, "usage": usage}


def _rerank(job: Generation, body: dict[str, Any]) -> dict[str, Any]:
    results = [
        {"index": index, "relevance_score": 1.0 / (1 + index)} for index in range(len(body.get("documents", [])))
    ]
    return {
        "model": job.model,
        "results": results,
        "usage": {"prompt_tokens": job.prompt_tokens, "total_tokens": job.prompt_tokens},
    }


def _count(job: Generation, _body: dict[str, Any]) -> dict[str, Any]:
    return {"input_tokens": job.prompt_tokens}


COUNTED: dict[str, Callable[[Generation, dict[str, Any]], dict[str, Any]]] = {
    "/v1/embeddings": _embeddings,
    "/v1/rerank": _rerank,
    "/rerank": _rerank,
    "/v1/messages/count_tokens": _count,
}


def _plain(state: State, connection: Connection, request: Request) -> None:
    options = state.options
    models = [{"id": name, "object": "model", "created": 1, "owned_by": "fake"} for name in options.served]
    documents: dict[str, object] = {
        "/v1/models": {"object": "list", "data": models},
        "/tokenize": {"tokens": list(range(len(request.body) // 4)), "count": len(request.body) // 4},
        "/detokenize": {"content": ""},
        "/props": {"model_alias": options.served[0], "total_slots": 1, "default_generation_settings": {"n_ctx": 4096}},
        "/version": {"version": "0.32.0"},
        "/v1/images/generations": {"created": 1, "data": [{"b64_json": "aGk="}]},
        "/is_sleeping": {"is_sleeping": state.sleeping},
    }
    if request.path == "/metrics":
        connection.answer(200, metrics(state).encode(), "text/plain; version=0.0.4")
    elif request.path == "/v1/audio/speech":
        connection.answer(200, b"RIFF" + bytes(1024), "audio/wav")
    elif request.path in MULTIPART:
        connection.answer_json(_echo_parts(request))
    elif request.path in ("/sleep", "/wake_up"):
        _sleep_or_wake(state, connection, asleep=request.path == "/sleep")
    elif request.path in documents:
        connection.answer_json(documents[request.path])
    else:
        connection.answer_json(_error(404, f"no route {request.path}"), 404)


def _sleep_or_wake(state: State, connection: Connection, *, asleep: bool) -> None:
    if state.options.sleep_broken and not asleep:
        state.wake_failed = True
        time.sleep(0.01)
        connection.answer_json(_error(500, "'list' object has no attribute 'zero_'"), 500)
        return
    state.sleeping = asleep
    hold(state.options, asleep=asleep)
    connection.answer(200, b"")


def _echo_parts(request: Request) -> dict[str, Any]:
    """Name, file name and size of every part, and the text of those without a file name."""
    boundary = b"--" + request.header("content-type").partition("boundary=")[2].strip('"').encode()
    parts = []
    for raw in request.body.split(boundary)[1:-1]:
        head, _, content = raw.partition(b"\r\n\r\n")
        content = content.removesuffix(b"\r\n")
        fields = dict(
            item.strip().split("=", 1) for item in head.decode("latin-1").replace("\r\n", ";").split(";") if "=" in item
        )
        named = {key: value.strip('"') for key, value in fields.items()}
        text = None if "filename" in named else content.decode("utf-8", "replace")
        parts.append(
            {"name": named.get("name"), "filename": named.get("filename"), "bytes": len(content), "text": text}
        )
    return {"text": "fake transcript", "body_bytes": len(request.body), "parts": parts}


def _error(status: int, message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "fake_error", "code": status, "param": None}}
