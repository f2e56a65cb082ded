"""One streamed chat completion, read event by event, with the stamps a person wants to see."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPResponse
from typing import Any

from gearshift.cli.client import ServerAddress, refusal, sent
from gearshift.domain.errors import GearshiftError

Message = Mapping[str, str]


@dataclass(slots=True)
class Answer:
    """What one request brought: texts, the server's token counts, seconds from sending."""

    content: str = ""
    reasoning: str = ""
    finish: str | None = None
    usage: Mapping[str, Any] | None = None
    variant: str | None = None
    queue_ms: float | None = None
    load_ms: float | None = None
    sent: float = field(default_factory=time.monotonic)
    first_s: float | None = None
    last_s: float | None = None
    whole: bool = False

    def tokens_per_second(self) -> float | None:
        """Decode rate after the first token, from the server's own count; None when it gave none."""
        tokens = (self.usage or {}).get("completion_tokens")
        if not tokens or tokens < 2 or self.first_s is None or self.last_s is None:  # noqa: PLR2004 - a rate needs two
            return None
        elapsed = self.last_s - self.first_s
        return (tokens - 1) / elapsed if elapsed > 0 else None


@dataclass(frozen=True, slots=True)
class Listener:
    """Where the parts of an answer go as they come."""

    content: Callable[[str], None]
    reasoning: Callable[[str], None]
    waiting: Callable[[str], None]  # comment lines: what the request waits for


def ask(
    server: ServerAddress, model: str, messages: Sequence[Message], options: Mapping[str, Any], to: Listener
) -> Answer:
    """Send a chat and stream its answer. Raises AdminError for a refusal, GearshiftError for a broken stream."""
    body = {
        "model": model,
        "messages": list(messages),
        "stream": True,
        "stream_options": {"include_usage": True},
        **options,
    }
    answer = Answer()
    with sent(server, "POST", "/v1/chat/completions", body, timeout=None) as request:
        response = request.answer()
        if response.status != 200:  # noqa: PLR2004 - HTTP
            raise refusal(response, key="GEARSHIFT_KEY to one of the server's API keys")
        for name in ("variant", "queue-ms", "load-ms"):
            _note(answer, name, response.headers.get(f"x-gearshift-{name}"))
        for line in _lines(response):
            _take(answer, line, to)
            if answer.whole:
                break
    if not answer.whole:
        msg = "the answer broke off before its end"
        raise GearshiftError(msg, hint=f"why: gearshift ps, gearshift logs {answer.variant or model}")
    return answer


def _lines(response: HTTPResponse) -> Iterator[str]:
    while line := response.readline():
        yield line.decode(errors="replace").rstrip("\r\n")


def _take(answer: Answer, line: str, to: Listener) -> None:
    if line.startswith(":"):
        _comment(answer, line[1:].strip(), to)
    elif line.startswith("data:"):
        data = line.removeprefix("data:").strip()
        if data == "[DONE]":
            answer.whole = True
        else:
            _chunk(answer, _document(data), to)


def _document(data: str) -> Mapping[str, Any]:
    try:
        document = json.loads(data)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise GearshiftError(f"the stream has an event that is no JSON object: {data[:80]!r}")
    return document


def _comment(answer: Answer, text: str, to: Listener) -> None:
    """Gearshift's figures where headers were already sent ("x-gearshift-load-ms=340 ..."), else a stage."""
    if not text.startswith("x-gearshift-"):
        to.waiting(text)
        return
    for pair in text.split():
        name, _, value = pair.removeprefix("x-gearshift-").partition("=")
        _note(answer, name, value)


def _note(answer: Answer, name: str, value: str | None) -> None:
    if value is None:
        return
    if name == "variant":
        answer.variant = value
    elif name == "queue-ms":
        answer.queue_ms = float(value)
    elif name == "load-ms":
        answer.load_ms = float(value)


def _chunk(answer: Answer, chunk: Mapping[str, Any], to: Listener) -> None:
    if error := chunk.get("error"):
        raise GearshiftError(str(error["message"]))
    answer.usage = chunk.get("usage") or answer.usage
    for choice in chunk.get("choices") or ():
        delta = choice.get("delta") or {}
        answer.finish = choice.get("finish_reason") or answer.finish
        if reasoning := delta.get("reasoning_content") or delta.get("reasoning"):
            answer.reasoning += _shown(answer, reasoning, to.reasoning)
        if content := delta.get("content"):
            answer.content += _shown(answer, content, to.content)


def _shown(answer: Answer, text: str, show: Callable[[str], None]) -> str:
    """A piece of the answer, once it is stamped and shown."""
    now = time.monotonic() - answer.sent
    answer.first_s = now if answer.first_s is None else answer.first_s
    answer.last_s = now
    show(text)
    return text
