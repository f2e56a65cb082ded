"""Who may use the admin API over TCP: an operator, on a host name we answer to, from a page of our own."""

from __future__ import annotations

from gearshift.domain.settings import Settings
from gearshift.edge.asgi import Scope
from gearshift.edge.errors import RefusedError
from gearshift.edge.gate import admit


def check(scope: Scope, settings: Settings) -> None:
    """Raises RefusedError: 400 or 403 for a foreign Host or Origin, 401 without a key, 403 for a client's key."""
    client = admit(scope, settings)
    if client.name is None:
        hint = "give a key the role operator in api_keys, or use the admin socket"
        raise RefusedError(401, "invalid_api_key", "the admin API over TCP needs an operator's key", hint=hint)
    if client.role != "operator":
        message = f"the key {client.name!r} is a client's; the admin API needs an operator's"
        raise RefusedError(403, "not_an_operator", message, hint="set role: operator on a key in api_keys")
