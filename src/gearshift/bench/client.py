"""The HTTP client: sends ready-made bodies, stamps what comes back, judges nothing."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import aiohttp

from gearshift.bench.fold import StreamFold
from gearshift.bench.sample import Call, Sample
from gearshift.domain.errors import GearshiftError

_OK = 200
REFUSALS = {  # by status: what a person can do about it
    401: "give the server's key with --key-env",
    403: "the key is not allowed here",
    429: "the server is busy or limits requests: ask for fewer streams, or later",
    503: "try again when the server is ready",
}
_AT_ONCE_S = 1.0
_CLOSING_S = 1.0  # for the end of the body behind the stream's own end mark: some proxies keep it open
_CONTROL_S = 30.0  # deadline of a control call such as /metrics


class TargetError(GearshiftError):
    """The server under test does not answer, or not with what it should."""


@dataclass(slots=True)
class _Attempt:
    """One sending of a call; times on `time.perf_counter`."""

    fold: StreamFold
    sent: float
    status: int | None = None
    headers_s: float | None = None
    lost: bool = False
    ended: float = 0.0

    @property
    def never_arrived(self) -> bool:
        """Lost at once and without an answer; an engine that dies over a prompt takes longer."""
        return self.lost and self.status is None and self.ended - self.sent < _AT_ONCE_S


class Client:
    """One server under test. Use as an async context manager; a session keeps its connections alive between trials.

    ``control_url`` is where control pages are (``/metrics``, ``/tokenize``), when that is not ``base_url``: behind a
    gateway, the engine itself. ``lease``, set before it is entered, is an operator's lease on the variant: a Gearshift
    then serves every call under it.
    """

    def __init__(
        self, base_url: str, *, key: str | None = None, control_url: str | None = None, timeout_s: float = 3600.0
    ) -> None:
        self.base_url = root_of(base_url)
        self.control_url = root_of(control_url or base_url)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._headers = headers | {"Content-Type": "application/json", "Accept": "text/event-stream"}
        self._timeout_s = timeout_s
        self.lease: str | None = None
        self._session: aiohttp.ClientSession | None = None
        self._fresh_session: aiohttp.ClientSession | None = None
        self._control_session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        if self.lease is not None:
            self._headers["X-Gearshift-Lease"] = self.lease
        self._session = self._streaming(aiohttp.TCPConnector(limit=0))
        self._fresh_session = self._streaming(aiohttp.TCPConnector(limit=0, force_close=True))
        # Control calls never reuse a connection: llama-server closes kept ones at will, and nothing here is timed.
        self._control_session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(force_close=True),
            timeout=aiohttp.ClientTimeout(total=_CONTROL_S),
            headers=self._headers | {"Accept": "*/*"},
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for session in (self._session, self._fresh_session, self._control_session):
            await _opened(session).close()

    def _streaming(self, connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=None),  # each call has its own deadline
            # Packed events would have to be unpacked between their coming and their stamp, and are gathered by packing.
            headers=self._headers | {"Accept-Encoding": "identity"},
            auto_decompress=False,
            read_bufsize=2**20,
        )

    async def send(self, call: Call, *, epoch: float, planned_s: float | None = None) -> Sample:
        """Send ``call`` and read its answer to the end. Never raises for what the server does: see ``Sample.error``.

        ``epoch`` is the trial's begin on `time.perf_counter`.
        """
        attempt = await self._attempt(call, _opened(self._session))
        if attempt.never_arrived:
            # A kept connection that the server has closed meanwhile (llama-server does after each answer): the request
            # was not read, so it is sent again on a new connection and its clock starts anew.
            attempt = await self._attempt(call, _opened(self._fresh_session))
        return attempt.fold.sample(
            started_s=attempt.sent - epoch,
            ended_s=attempt.ended - attempt.sent,
            status=attempt.status,
            headers_s=attempt.headers_s,
            planned_s=planned_s,
        )

    async def _attempt(self, call: Call, session: aiohttp.ClientSession) -> _Attempt:
        attempt = _Attempt(StreamFold(), time.perf_counter())
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                session.post(self.base_url + call.path, data=call.body) as response,
            ):
                attempt.status, attempt.headers_s = response.status, time.perf_counter() - attempt.sent
                await _read(response, attempt.fold, attempt.sent)
        except TimeoutError:
            attempt.fold.fail(f"no end within {self._timeout_s:g} s")
        except (aiohttp.ClientError, OSError) as error:
            attempt.lost = isinstance(error, aiohttp.ClientOSError | aiohttp.ServerDisconnectedError)
            attempt.fold.fail(f"{type(error).__name__}: {error}")
        attempt.ended = time.perf_counter()
        return attempt

    async def get_text(self, path: str) -> str | None:
        """A control page such as ``/metrics``; None when the server has no such page.

        Raises:
            TargetError: the server cannot be reached, is loading, or wants a key.
        """
        return await self._control("GET", path, None)

    async def get_json(self, path: str) -> Any | None:
        """Like `get_text`, decoded; None when the page is missing or no JSON."""
        return _json(await self._control("GET", path, None))

    async def post_json(self, path: str, body: Mapping[str, object]) -> Any | None:
        """Post to a control path such as ``/tokenize``; None when the server does not know it."""
        return _json(await self._control("POST", path, body))

    async def _control(self, method: str, path: str, body: Mapping[str, object] | None) -> str | None:
        try:
            async with _opened(self._control_session).request(method, self.control_url + path, json=body) as response:
                if (hint := REFUSALS.get(response.status)) is not None:
                    msg = f"{self.control_url}{path} answers {response.status}: {_words(await response.text())}"
                    raise TargetError(msg, hint=hint)
                return await response.text() if response.status == _OK else None
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            msg = f"{self.control_url}{path} does not answer: {str(error) or 'deadline passed'}"
            raise TargetError(msg, hint="check the URL and that the server runs") from error


def root_of(url: str) -> str:
    """``http://host:port/prefix`` of a base URL that people write with or without ``/v1`` and a trailing slash."""
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


def _words(body: str) -> str:
    """Why a server refuses, as it says itself: the message of its error, else the beginning of what it sent."""
    try:
        message = json.loads(body)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        message = body.strip() or "without a word"
    return str(message)[:300]


def _opened(session: aiohttp.ClientSession | None) -> aiohttp.ClientSession:
    if session is None:
        msg = "the client is used outside its context"
        raise RuntimeError(msg)
    return session


async def _read(response: aiohttp.ClientResponse, fold: StreamFold, sent: float) -> None:
    if response.status != _OK:
        fold.fail(f"HTTP {response.status}: {(await response.text())[:300]}")
        return
    if not response.content_type.startswith("text/event-stream"):
        fold.whole(time.perf_counter() - sent, await response.read())
        return
    try:
        async with asyncio.timeout(None) as closing:
            async for piece in response.content.iter_any():
                fold.feed(time.perf_counter() - sent, piece)
                if fold.ended and closing.when() is None:
                    closing.reschedule(asyncio.get_running_loop().time() + _CLOSING_S)
    except TimeoutError:
        if not closing.expired():
            raise
    fold.end()


def _json(text: str | None) -> Any | None:
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None
