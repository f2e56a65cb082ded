"""Who may use the admin API over TCP: an operator, on a host name we answer to, from a page of our own or one named."""

from __future__ import annotations

from collections.abc import Callable

from gearshift.domain.settings import Settings
from gearshift.edge.asgi import App, Header, Message, Receive, Scope, Send, answer
from gearshift.edge.errors import RefusedError, body_for
from gearshift.edge.gate import admit
from gearshift.edge.origin import check_host, cors_headers, preflight


class Guard:
    """ASGI middleware: refuses strangers before routing, answers preflights, lets named pages read answers."""

    def __init__(self, app: App, settings: Callable[[], Settings]) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        settings = self._settings()
        readable = cors_headers(scope["headers"], settings)
        try:
            check_host(scope, settings)
            allowed = preflight(scope, settings)
            if allowed is None:
                _check_operator(scope, settings)
        except RefusedError as error:
            status, headers, body = body_for(error, "openai")
            await answer(send, status, [*headers, *readable], body)
            return
        if allowed is not None:
            await answer(send, 204, [*allowed, *readable], b"")
            return
        await self._app(scope, receive, _with_headers(send, readable))


def _with_headers(send: Send, extra: list[Header]) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *extra]}
        await send(message)

    return sending if extra else send


def _check_operator(scope: Scope, settings: Settings) -> None:
    """Raises RefusedError: 400 or 403 for a foreign Host or Origin, 401 without a key, 403 for a client's key."""
    client = admit(scope, settings)
    if client.name is None:
        hint = "give a key the role operator in api_keys, or use the admin socket"
        raise RefusedError(401, "invalid_api_key", "the admin API over TCP needs an operator's key", hint=hint)
    if client.role != "operator":
        message = f"the key {client.name!r} is a client's; the admin API needs an operator's"
        raise RefusedError(403, "not_an_operator", message, hint="set role: operator on a key in api_keys")
