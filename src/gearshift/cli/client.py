"""The admin API's client: blocking, on the standard library alone, because `ps` must start fast."""

from __future__ import annotations

import http.client
import json
import select
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from gearshift.domain.errors import GearshiftError
from gearshift.domain.paths import Paths

PREFIX = "/api/v1"
REPLY_TIMEOUT_S = 10.0  # for what the server answers at once


class NoServerError(GearshiftError):
    """Nothing answers where the server should be."""


class SlowServerError(GearshiftError):
    """The server is there, and did not answer in time."""


class AdminError(GearshiftError):
    """The server's refusal, in its own words, with its status and code."""

    def __init__(self, status: int, code: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.code = code


class _SocketConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: Path, timeout: float | None) -> None:
        super().__init__("gearshift", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a server is: behind its admin socket, or at a URL with a key."""

    place: str  # as a person would name it
    socket_path: Path | None = None
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    lock_path: Path | None = None  # of the same server, which tells whether it lives when its socket does not answer

    @classmethod
    def behind(cls, paths: Paths) -> ServerAddress:
        return cls(str(paths.admin_socket), socket_path=paths.admin_socket, lock_path=paths.lock)

    @classmethod
    def at(cls, url: str, key: str | None) -> ServerAddress:
        """A server elsewhere. Raises GearshiftError for what is no http or https URL."""
        if not _is_server_url(url):
            msg = f"{url!r} is not a URL of a server"
            raise GearshiftError(msg, hint="write for example http://gpu-box:8888")
        return cls(url, url=url.rstrip("/"), headers={"Authorization": f"Bearer {key}"} if key else {})

    @property
    def prefix(self) -> str:
        """The URL's own path, for a server behind a reverse proxy."""
        return urlsplit(self.url).path if self.url else ""

    def connection(self, timeout: float | None) -> http.client.HTTPConnection:
        """A connection that is not open yet; ``timeout`` (seconds) is per read."""
        if self.socket_path is not None:
            return _SocketConnection(self.socket_path, timeout)
        parts = urlsplit(self.url or "")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        return kind(parts.hostname or "", parts.port, timeout=timeout)


def reachable(listen: str) -> str:
    """A URL to connect to for an address to listen on: "every address" is reached by loopback."""
    parts = urlsplit(listen)
    loopback = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - compared with, not bound to
    host = loopback.get(parts.hostname or "", parts.hostname or "")
    host = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"{parts.scheme}://{host}:{parts.port}"


def _is_server_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, an unclosed bracket
        return False


class AdminClient:
    """Calls operations of the admin API and raises their errors. One connection per call."""

    def __init__(self, server: ServerAddress) -> None:
        self.server = server

    def get(self, path: str, **query: object) -> Any:
        """The decoded answer of a GET. Raises AdminError or NoServerError."""
        return self.call("GET", path, query=query)

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, object] | None = None,
        timeout: float | None = REPLY_TIMEOUT_S,
    ) -> Any:
        """The decoded answer; None for an empty one. Raises AdminError, NoServerError or SlowServerError."""
        with self.sent(method, path, body, query=query, timeout=timeout) as request:
            return request.document()

    @contextmanager
    def sent(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, object] | None = None,
        timeout: float | None = None,
    ) -> Iterator[SentRequest]:
        """A request on its way; leaving the block closes the connection, which the server notices."""
        with sent(self.server, method, _address(path, query), body, timeout=timeout) as request:
            yield request


@dataclass(frozen=True, slots=True)
class SentRequest:
    """One request that was sent."""

    connection: http.client.HTTPConnection
    server: ServerAddress

    def answered(self, within_s: float) -> bool:
        """Whether the answer has begun to come, waiting that long for it."""
        return bool(select.select([self.connection.sock], [], [], within_s)[0])

    def answer(self) -> http.client.HTTPResponse:
        """Whatever the answer is, still to be read. Raises NoServerError when there is none."""
        with _as_no_server(self.server):
            return self.connection.getresponse()

    def good_answer(self) -> http.client.HTTPResponse:
        """An answer that is no refusal. Raises AdminError otherwise."""
        response = self.answer()
        if response.status >= http.HTTPStatus.BAD_REQUEST:
            raise refusal(response, key="GEARSHIFT_OPERATOR_KEY to an operator's key")
        return response

    def document(self) -> Any:
        """The decoded body of a good answer."""
        return _decoded(self.good_answer())


@contextmanager
def sent(
    server: ServerAddress, method: str, address: str, body: object, *, timeout: float | None
) -> Iterator[SentRequest]:
    """Send one request on a connection of its own, closed at the end.

    Raises NoServerError when nothing answers, SlowServerError when nothing comes for ``timeout`` seconds.
    """
    connection = server.connection(timeout)
    payload = None if body is None else json.dumps(body).encode()
    headers = {**server.headers, "Content-Type": "application/json"} if payload else dict(server.headers)
    try:
        with _as_no_server(server):
            connection.request(method, server.prefix + address, payload, headers)
        yield SentRequest(connection, server)
    except TimeoutError as error:
        msg = f"the server at {server.place} did not answer within {timeout:g} s"
        raise SlowServerError(msg, hint="it may be suspended or overloaded; its log says more") from error
    except http.client.HTTPException as error:
        msg = f"the answer of the server at {server.place} broke off"
        raise NoServerError(msg) from error
    finally:
        connection.close()


@contextmanager
def _as_no_server(server: ServerAddress) -> Iterator[None]:
    """For the parts where an OSError can only mean the server: connecting, sending, the answer's first line."""
    try:
        yield
    except TimeoutError:
        raise
    except OSError as error:  # refused, no such socket, no permission, no such host, closed without an answer
        raise _no_server(server, error) from error


def _address(path: str, query: Mapping[str, object] | None) -> str:
    text = urlencode({key: value for key, value in (query or {}).items() if value is not None})
    return PREFIX + quote(path) + (f"?{text}" if text else "")


def _no_server(server: ServerAddress, error: OSError) -> NoServerError:
    if server.socket_path is None:
        hint = "check the URL (--url, GEARSHIFT_URL), and that the server listens on an address that can be reached"
        return NoServerError(f"no server answers at {server.place}: {error.strerror or error}", hint=hint)
    if isinstance(error, PermissionError):
        hint = "run this as the user whose server it is, or point GEARSHIFT_HOME at your own"
        return NoServerError(f"{server.place} is another user's: {error.strerror}", hint=hint)
    return _silent(server, gone=isinstance(error, FileNotFoundError))


def _silent(server: ServerAddress, *, gone: bool) -> NoServerError:
    """Why nothing answers at the admin socket; ``gone``: there is no such file."""
    from gearshift.supervisor.lock import lock_holder  # noqa: PLC0415 - only a failure needs it, and `ps` starts fast

    holder = lock_holder(server.lock_path) if server.lock_path is not None else None
    if holder is None:
        message = f"no server is running (nothing answers at {server.place})"
        return NoServerError(message, hint="start one: gearshift serve")
    restart = f"kill -TERM {holder.pid}, then gearshift serve"
    if holder.deleted:
        message = f"a server runs (pid {holder.pid}), but its state folder was removed under it: {server.place} is gone"
        return NoServerError(message, hint=f"it still serves requests; restart it: {restart}")
    if gone:
        message = f"a server runs (pid {holder.pid}), but its admin socket {server.place} is gone"
        hint = f"unless it is just starting or ending, make it again: kill -HUP {holder.pid} (this also reloads)"
        return NoServerError(message, hint=hint)
    message = f"a server runs (pid {holder.pid}), but does not answer at {server.place}"
    return NoServerError(message, hint=f"unless it is just starting or ending, restart it: {restart}")


def _decoded(response: http.client.HTTPResponse) -> Any:
    raw = response.read()
    try:
        return json.loads(raw) if raw else None
    except ValueError as error:
        text = raw.decode(errors="replace").strip()[:80]
        hint = "check the URL (--url, GEARSHIFT_URL): something else answers there"
        raise AdminError(
            response.status, "unknown", f"the answer is not from a Gearshift server: {text!r}", hint=hint
        ) from error


def refusal(response: http.client.HTTPResponse, *, key: str) -> AdminError:
    """The error an answer holds, whoever wrote it: a proxy on the way does not speak our shape.

    ``key`` is what to set where the answer is that a key is missing or wrong.
    """
    raw = response.read()
    hint = f"set {key}" if response.status == http.HTTPStatus.UNAUTHORIZED else None
    try:
        error = json.loads(raw)["error"]
        return AdminError(response.status, str(error["code"]), str(error["message"]), hint=hint)
    except (ValueError, KeyError, TypeError):
        text = raw.decode(errors="replace").strip()[:200]
        return AdminError(response.status, "unknown", f"HTTP {response.status} {response.reason}: {text}", hint=hint)
