"""The HTTP server below the faces: uvicorn on httptools and uvloop, plus the limits that uvicorn does not have.

llhttp, which httptools wraps, refuses what smuggling needs: Content-Length beside Transfer-Encoding, two lengths, bad
chunk sizes, bare LF. uvicorn on top of it has no deadline for a request's head or body and no limit on a head's size,
and adds trailers to the headers of a request that is already being served; `GuardedProtocol` closes those gaps.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from gearshift.domain.settings import Settings
from gearshift.edge.asgi import App
from gearshift.edge.errors import RefusedError, body_for
from gearshift.gateway.heap import keep_freed_memory
from gearshift.gateway.intake import out_of_memory

HEAD_S: Final = 10.0  # from connecting, or from the first byte of a later request, to the end of its headers
BODY_IDLE_S: Final = 30.0  # between two pieces of a body that somebody waits for
HEAD_BYTES: Final = 64 * 1024  # also for what a body may hold beside its data: chunk sizes, extensions, trailers
LINGER_S: Final = 2.0  # for the rest of a request that was refused before it had come in whole
_FAREWELL_S: Final = 5
_KEEPALIVE_S: Final = 75  # above what HTTP clients' pools use, so that the client is the one to close


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's httptools protocol with deadlines and a limit on everything that is not body data."""

    _timer: asyncio.TimerHandle | None = None
    _in_head = False
    _in_body = False
    _refused = False
    _overhead = 0  # bytes received since the last piece of body data

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        super().connection_made(transport)
        self._timer = self.loop.call_later(HEAD_S, self._head_late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self._overhead += len(data)
        super().data_received(data)
        if self._refused:
            return
        if self.transport.is_closing() or self.transport.get_protocol() is not self:
            self._stop_timer()  # a websocket has its own protocol and its own pings from here on
        elif self._in_head or self._in_body:
            self._check_overhead()
            if self._timer is None:
                self._watch()
        elif self._is_busy():
            self._stop_timer()
        elif self._timer is None and self.timeout_keep_alive_task is None:
            # Blank lines between requests: they end uvicorn's own idle timer and begin no request.
            self._watch()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # what comes later is a trailer: not checked at the gate, so not a header
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head, self._in_body, self._overhead = False, True, 0
        self._stop_timer()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._overhead = 0
        self._stop_timer()
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_body, self._overhead = False, 0
        self._stop_timer()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """A refused request: an answer of ours when none was begun, else just the cut."""
        error = sys.exception()  # a parser's; where one of our own callbacks failed, that is its context
        starved = error is not None and isinstance(error.__context__, MemoryError)
        self._refuse(out_of_memory() if starved else RefusedError(400, "invalid_http", msg))

    def _check_overhead(self) -> None:
        if self._overhead > HEAD_BYTES:
            self._refuse(RefusedError(431, "headers_too_large", f"more than {HEAD_BYTES} bytes of headers"))

    def _watch(self) -> None:
        late, after = (self._body_late, BODY_IDLE_S) if self._in_body else (self._head_late, HEAD_S)
        self._timer = self.loop.call_later(after, late)

    def _head_late(self) -> None:
        self._timer = None
        if self._is_busy():  # a pipelined head may wait for the answer before it
            self._watch()
        elif self._in_head:
            self._refuse(RefusedError(408, "headers_too_slow", f"the headers took longer than {HEAD_S:.0f} s"))
        else:
            self.transport.close()

    def _body_late(self) -> None:
        self._timer = None
        if self.flow.read_paused:  # it is us who are not reading
            self._watch()
        else:
            self.transport.close()

    def _is_busy(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request, whatever its annotation says
        return cycle is not None and not cycle.response_complete

    def _refuse(self, error: RefusedError) -> None:
        self._stop_timer()
        if not self._is_busy() or not self.cycle.response_started:
            status, headers, body = body_for(error, "openai")
            lines = [b"HTTP/1.1 %d %b" % (status, error.code.encode()), b"connection: close"]
            lines += [b"%b: %b" % pair for pair in (*headers, (b"content-length", b"%d" % len(body)))]
            self.transport.write(b"\r\n".join(lines) + b"\r\n\r\n" + body)
            self._linger()
        else:
            self.transport.close()

    def _linger(self) -> None:
        """End our side and pass over what the client still sends.

        Closing with unread data resets the connection, and a reset takes the answer from a client that has not read it.
        """
        self._refused = True
        if self._is_busy():
            self.cycle.disconnected = True  # what serves it learns now that nobody listens any more
            self.cycle.message_event.set()
        self.transport.write_eof()
        self.flow.resume_reading()
        self._timer = self.loop.call_later(LINGER_S, self.transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def uvicorn_config(app: App, settings: Settings, *, uds: Path | None = None) -> uvicorn.Config:
    """How Gearshift serves HTTP: on ``settings.host:port``, or on a unix socket; sockets may be passed to the server.

    Logging is left to the application; access lines are not written, since every request has its record. The process
    keeps some freed memory from here on (`heap`).
    """
    keep_freed_memory()
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        uds=str(uds) if uds is not None else None,
        loop="uvloop",
        http=GuardedProtocol,
        lifespan="on",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEPALIVE_S,
        timeout_graceful_shutdown=_FAREWELL_S,  # engines are gone by then: nothing open has anything left to say
        ws_max_size=64 * 1024**2,
    )
