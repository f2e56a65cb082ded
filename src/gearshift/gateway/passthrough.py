"""/upstream/{variant}/...: an engine's own paths, whatever they are, but for the ones that only Gearshift may use."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote

from gearshift.domain.errors import UnknownModelError
from gearshift.domain.leasing import Broker, Route
from gearshift.edge.asgi import Scope
from gearshift.edge.errors import RefusedError

PREFIX = "/upstream/"
# vLLM's development endpoints (entrypoints/serve/dev): they put an engine to sleep, drop its caches or run code in
# its workers, and have no authentication of their own.
_RESERVED = frozenset(
    {
        "sleep",
        "wake_up",
        "is_sleeping",
        "collective_rpc",
        "server_info",
        "reset_prefix_cache",
        "reset_mm_cache",
        "reset_encoder_cache",
        "release_kv_cache_memory",
        "pause",
        "resume",
        "is_paused",
        "scale_elastic_ep",
        "is_scaling_elastic_ep",
        "start_profile",
        "stop_profile",
    }
)


def locate(scope: Scope, broker: Broker) -> tuple[Route, str]:
    """The variant that the path names and what follows it, query included.

    A model's name may hold slashes, so longer names are tried after shorter ones. Raises UnknownModelError, or
    RefusedError for a reserved path.
    """
    unknown: UnknownModelError | None = None
    for name, rest in _splits(scope["raw_path"].decode("latin-1")):
        try:
            route = broker.resolve(name)
        except UnknownModelError as error:
            unknown = unknown or error
            continue
        _check_reserved(rest)
        query: bytes = scope["query_string"]
        return route, f"{rest}?{query.decode('latin-1')}" if query else rest
    raise unknown or UnknownModelError("the path names no variant", hint=f"{PREFIX}MODEL:VARIANT/...")


def _splits(raw_path: str) -> Iterator[tuple[str, str]]:
    segments = raw_path.removeprefix(PREFIX).split("/")
    for count in range(1, len(segments) + 1):
        name = unquote("/".join(segments[:count]))
        if name:
            yield name, "/" + "/".join(segments[count:])


def _check_reserved(rest: str) -> None:
    if _RESERVED.intersection(unquote(rest).split("/")):
        raise RefusedError(404, "reserved_path", f"{unquote(rest)} is an engine control path, not open to clients")
