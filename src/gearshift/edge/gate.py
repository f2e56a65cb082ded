"""The checks every request passes, in the order that tells a stranger least: host, origin, key."""

from __future__ import annotations

from gearshift.domain.settings import Settings
from gearshift.edge import keys, origin
from gearshift.edge.asgi import Scope
from gearshift.edge.errors import RefusedError


def admit(scope: Scope, settings: Settings, *, side_effects: bool | None = None) -> keys.Client:
    """The caller of an HTTP request that may proceed. Raises RefusedError (400, 401 or 403)."""
    origin.check_host(scope, settings)
    origin.check_origin(scope, settings, side_effects=side_effects)
    client = keys.authenticate(scope["headers"], settings)
    if client is None:
        raise RefusedError(
            401,
            "invalid_api_key",
            "no valid API key",
            hint="send one as Authorization: Bearer KEY or x-api-key: KEY",
        )
    return client
