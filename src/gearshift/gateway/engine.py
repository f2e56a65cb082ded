"""The HTTP client towards engines: one session, nothing decoded, nothing followed, nothing of the client's secrets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from functools import lru_cache
from typing import Final

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from gearshift.domain.leasing import Upstream
from gearshift.edge.asgi import Header
from gearshift.edge.keys import CREDENTIAL_HEADERS
from gearshift.gateway.rewrite import Pieces

_CONNECT_S: Final = 5.0
# Below the 5 s after which llama-server (cpp-httplib) and vLLM (uvicorn) close idle connections: a request must not
# meet a connection that the engine is closing.
_KEEPALIVE_S: Final = 3.0
_READ_BUFFER: Final = 256 * 1024
# A body up to here is joined and sent with the head at once; a larger one goes part by part, uncopied.
_JOINED: Final = 64 * 1024
_PIECE: Final = 512 * 1024
_FINAL: Final = range(200, 600)  # of a final answer; 101 would hand the client a connection that is not its own

_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
LEASE_HEADER: Final = b"x-gearshift-lease"  # an operator's lease that the request is made under
# Beside keys: what belongs to our own origin (cookies, Origin), what aiohttp sets itself, and Expect, which the
# server below us has answered already.
_NOT_FORWARDED = (
    _HOP_BY_HOP
    | CREDENTIAL_HEADERS
    | {b"host", b"content-length", b"cookie", b"origin", b"expect", b"accept-encoding", LEASE_HEADER}
)
# CORS and proxy buffering are the gateway's to answer; server and date are set by the server below us.
_NOT_RETURNED = _HOP_BY_HOP | {b"server", b"date", b"set-cookie", b"x-accel-buffering"}
_CORS = b"access-control-"


Body = Pieces | AsyncIterator[bytes] | None


class EngineClient:
    """Owns the sessions. Requests are raw: the caller reads ``response.content`` and closes the response."""

    def __init__(self) -> None:
        self._keeping: aiohttp.ClientSession | None = None
        self._fresh: aiohttp.ClientSession | None = None

    @property
    def session(self) -> aiohttp.ClientSession:
        """Keeps connections for the next request. Opened by the first one; needs a running loop."""
        if self._keeping is None:
            self._keeping = _session(aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEPALIVE_S))
        return self._keeping

    @property
    def fresh(self) -> aiohttp.ClientSession:
        """Makes a new connection for each request, for those that must not meet one that the engine is closing."""
        if self._fresh is None:
            self._fresh = _session(aiohttp.TCPConnector(limit=0, force_close=True))
        return self._fresh

    async def close(self) -> None:
        for session in (self._keeping, self._fresh):
            if session is not None:
                await session.close()
        self._keeping = self._fresh = None

    async def send(
        self,
        method: str,
        upstream: Upstream,
        target: str,
        headers: CIMultiDict[str],
        body: Body = None,
        *,
        length: int | None = None,
    ) -> aiohttp.ClientResponse:
        """One request; returns when the answer's head is there. Raises aiohttp.ClientError, OSError or TimeoutError.

        ``length`` is the size of a streamed body where it is known. An idle connection may be closed by the engine in
        the moment we reuse it; then nothing of an answer has come, and the request is made once more on a new one. A
        streamed body cannot be sent twice, so it gets a new connection at once.
        """
        headers.update(upstream.headers)
        url = _url(upstream.endpoint.base_url, target)
        if isinstance(body, list):
            length = sum(map(len, body))
        if length is not None:
            headers["Content-Length"] = str(length)
        if isinstance(body, list | None):
            try:
                return await _request(self.session, method, url, headers, body)
            except aiohttp.ClientConnectorError:
                raise  # refused, and it would only be refused again
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                pass  # closed or reset under the request
        return await _request(self.fresh, method, url, headers, body)


def _session(connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        read_bufsize=_READ_BUFFER,
        trust_env=False,
        skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
    )


async def _request(
    session: aiohttp.ClientSession, method: str, url: URL, headers: CIMultiDict[str], body: Body
) -> aiohttp.ClientResponse:
    data = _joined(body) if isinstance(body, list) else body
    response = await session.request(method, url, data=data, headers=headers, allow_redirects=False)
    if response.status not in _FINAL:
        response.close()
        raise aiohttp.ClientPayloadError(f"status {response.status} is no answer")
    return response


def _joined(body: Pieces) -> bytes | AsyncIterator[bytes | memoryview]:
    return b"".join(body) if sum(map(len, body)) <= _JOINED else _parts(body)


@lru_cache(maxsize=256)
def _url(base: str, target: str) -> URL:
    # Already encoded: re-quoting would change the path that the client asked for.
    return URL(base + target, encoded=True)


async def _parts(body: Pieces) -> AsyncIterator[bytes | memoryview]:
    for piece in body:
        for start in range(0, len(piece), _PIECE):
            yield piece[start : start + _PIECE]


def request_headers(headers: Iterable[Header]) -> CIMultiDict[str]:
    """The client's headers as an engine may see them: no secrets, and nothing meant for this hop alone."""
    kept: CIMultiDict[str] = CIMultiDict()
    named: list[bytes] = []  # by Connection: RFC 9110, 7.6.1
    for name, value in headers:
        if name not in _NOT_FORWARDED:
            kept.add(name.decode("latin-1"), value.decode("latin-1"))
        elif name == b"connection":
            named += value.split(b",")
    for name in named:
        kept.popall(name.strip().decode("latin-1"), None)
    return kept


def response_headers(headers: Iterable[Header]) -> list[Header]:
    """An engine's headers as the client gets them."""
    kept: list[Header] = []
    for name, value in headers:
        lower = name.lower()
        if lower not in _NOT_RETURNED and not lower.startswith(_CORS):
            kept.append((lower, value))
    return kept
