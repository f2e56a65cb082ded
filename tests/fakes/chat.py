"""An OpenAI-compatible chat endpoint as an ASGI app: streams scripted SSE lines and keeps what it was sent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any


def chunk(**delta: str) -> str:
    return "data: " + json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})


def ending(reason: str = "stop", tokens: int = 3) -> list[str]:
    usage = {"prompt_tokens": 5, "completion_tokens": tokens, "total_tokens": 5 + tokens}
    return [
        "data: " + json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}),
        "data: " + json.dumps({"choices": [], "usage": usage}),
        "data: [DONE]",
    ]


class FakeChat:
    """Answers every POST with ``lines``, or with ``refusal`` (status, body)."""

    def __init__(self, lines: Sequence[str] = ()) -> None:
        self.lines = list(lines)
        self.headers: dict[str, str] = {}
        self.refusal: tuple[int, dict[str, Any]] | None = None
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        self.asked.append(json.loads(body or b"null"))
        self.keys.append(dict(scope["headers"]).get(b"authorization", b"").decode() or None)
        status, answer = self.refusal or (200, None)
        headers = [(name.encode(), value.encode()) for name, value in self.headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        if answer is not None:
            await send({"type": "http.response.body", "body": json.dumps(answer).encode()})
            return
        for line in self.lines:
            await send({"type": "http.response.body", "body": f"{line}\n\n".encode(), "more_body": True})
        await send({"type": "http.response.body", "body": b""})
