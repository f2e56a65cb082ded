"""Host and Origin checks: a web page the user happens to visit must not reach a server on their own machine.

Two attacks are meant. DNS rebinding: a foreign name is made to point here, so the page counts as same-origin; the Host
header still holds that name, and only known names are answered. Addresses are always answered: rebinding needs a name.
Cross-site requests: the browser says where a page came from in Origin (and Sec-Fetch-Site); what has side effects is
refused unless the page is our own or named in ``cors_origins``.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from gearshift.domain.settings import Settings
from gearshift.edge.asgi import Header, Headers, Scope, header
from gearshift.edge.errors import RefusedError

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_LOCAL_NAMES = frozenset({"localhost", "ip6-localhost"})


def check_host(scope: Scope, settings: Settings) -> None:
    """Refuse a Host that is not ours. Raises RefusedError; a unix socket has no such thing to check."""
    server = scope.get("server")
    if server is not None and server[1] is None:
        return
    value = header(scope["headers"], b"host")
    if value is None:
        raise RefusedError(400, "host_missing", "the request has no Host header")
    name = _hostname(value)
    if name in _LOCAL_NAMES or _is_address(name) or _is_ours(name, settings):
        return
    raise RefusedError(
        403,
        "host_refused",
        f"Host {value.decode('latin-1')!r} is not a name of this server",
        hint="add it to allowed_hosts to answer to it",
    )


def check_origin(scope: Scope, settings: Settings, *, side_effects: bool | None = None) -> None:
    """Refuse a foreign page's request that has side effects. Raises RefusedError.

    ``side_effects`` None means: whatever is not GET, HEAD or OPTIONS.
    """
    if side_effects is None:
        side_effects = scope["method"] not in _SAFE_METHODS
    if not side_effects:
        return
    origin = header(scope["headers"], b"origin")
    if origin is None:
        _check_fetch_site(scope["headers"])
        return
    if not _same_origin(origin, scope["headers"]) and not is_allowed_origin(origin, settings):
        raise RefusedError(
            403,
            "origin_refused",
            f"Origin {origin.decode('latin-1')!r} may not call this server",
            hint="add it to cors_origins to allow it",
        )


def is_allowed_origin(origin: bytes, settings: Settings) -> bool:
    """Whether the configuration lets pages of this origin call."""
    page = origin.decode("latin-1").lower()  # browsers write names in lower case; people may not
    return any(allowed in {"*", page} for allowed in map(str.lower, settings.cors_origins))


def cors_headers(headers: Headers, settings: Settings) -> list[Header]:
    """What to add to an answer so that an allowed page may read it; empty for everybody else."""
    if not settings.cors_origins:
        return []
    origin = header(headers, b"origin")
    if origin is None or not is_allowed_origin(origin, settings):
        return []
    exposed = b"x-gearshift-variant, x-gearshift-queue-ms, x-gearshift-load-ms, retry-after"
    return [
        (b"access-control-allow-origin", origin),
        (b"access-control-expose-headers", exposed),
        (b"vary", b"origin"),
    ]


def preflight(scope: Scope, settings: Settings) -> list[Header] | None:
    """What a CORS preflight's 204 says beside `cors_headers`; None when the request is none. Raises RefusedError."""
    headers = scope["headers"]
    if scope["method"] != "OPTIONS" or header(headers, b"access-control-request-method") is None:
        return None
    check_origin(scope, settings, side_effects=True)
    wanted = header(headers, b"access-control-request-headers") or b"authorization, content-type"
    return [
        (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
        (b"access-control-allow-headers", wanted),
        (b"access-control-max-age", b"600"),
    ]


def _check_fetch_site(headers: Headers) -> None:
    # Browsers omit Origin on plain GETs (images, links) but say in Sec-Fetch-Site that another site asked.
    if header(headers, b"sec-fetch-site") in {b"cross-site", b"same-site"}:
        raise RefusedError(403, "origin_refused", "another site's page may not start work on this server")


def _same_origin(origin: bytes, headers: Headers) -> bool:
    host = header(headers, b"host")
    return host is not None and urlsplit(origin.decode("latin-1")).netloc.lower() == host.decode("latin-1").lower()


def _hostname(value: bytes) -> str:
    text = value.decode("latin-1").strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0].rstrip(".")


def _is_ours(name: str, settings: Settings) -> bool:
    return any(name == known.lower().rstrip(".") for known in (settings.host, *settings.allowed_hosts))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
