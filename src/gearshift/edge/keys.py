"""API keys: who is calling. Secrets are compared in constant time and never leave this module."""

from __future__ import annotations

import base64
import binascii
import hmac
from dataclasses import dataclass

from gearshift.domain.settings import Role, Settings
from gearshift.edge.asgi import Headers

# The headers that carry a key; the gateway never forwards them to an engine.
CREDENTIAL_HEADERS = frozenset({b"authorization", b"x-api-key"})


@dataclass(frozen=True, slots=True)
class Client:
    """A caller let in: the key's name, or None where no keys are configured."""

    name: str | None
    role: Role = "client"


def authenticate(headers: Headers, settings: Settings) -> Client | None:
    """The caller behind a request's key, or None when it has no valid one.

    A key may come as ``Authorization: Bearer``, as ``x-api-key`` or as the password of Basic authentication.
    Without configured keys everybody is an anonymous client.
    """
    if not settings.api_keys:
        return Client(None)
    presented = _presented(headers)
    found: Client | None = None
    for key in settings.api_keys:  # no early end: the time must not tell which key matched
        secret = key.secret.encode()
        for candidate in presented:
            if hmac.compare_digest(candidate, secret):
                found = Client(key.name, key.role)
    return found


def _presented(headers: Headers) -> list[bytes]:
    found: list[bytes] = []
    for name, value in headers:
        if name == b"x-api-key":
            found.append(value.strip())
        elif name == b"authorization":
            found.extend(_from_authorization(value))
    return found


def _from_authorization(value: bytes) -> list[bytes]:
    scheme, _, rest = value.strip().partition(b" ")
    rest = rest.strip()
    if scheme.lower() == b"bearer":
        return [rest]
    if scheme.lower() != b"basic":
        return []
    try:
        _, _, password = base64.b64decode(rest, validate=True).partition(b":")
    except binascii.Error:
        return []
    return [password]
