"""Sockets and the HTTP servers on them. The admin socket is made private before anyone can connect."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import uvicorn

from gearshift.domain.errors import GearshiftError

BACKLOG = 1024
START_S = 30.0  # what starts here waits for nothing outside this process


class QuietServer(uvicorn.Server):
    """uvicorn without its signal handlers: the composition root owns the signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bind_tcp(host: str, port: int) -> socket.socket:
    """A listening TCP socket; port 0 picks one. Raises GearshiftError naming who may hold it."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, proto)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _listen(listener, address)
    except OSError as error:
        raise GearshiftError(
            f"cannot listen on {host}:{port}: {error.strerror or error}",
            hint="another server may hold the port; choose another with `listen` or --listen",
        ) from error
    return listener


def bind_admin(path: Path) -> socket.socket:
    """The admin socket, 0600. What is there is left from a dead server: the state lock says that no other lives.

    Raises GearshiftError when it cannot be made.
    """
    before = os.umask(0o177)
    try:
        path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        _listen(listener, str(path))
    except OSError as error:
        raise GearshiftError(
            f"cannot make the admin socket {path}: {error.strerror or error}",
            hint="the state folder must be writable and its path shorter than about 100 characters; see GEARSHIFT_HOME",
        ) from error
    finally:
        os.umask(before)
    return listener


def _listen(listener: socket.socket, address: Any) -> None:
    """Bind and listen, or close it and raise OSError: a server that goes on must not lose a descriptor each time."""
    try:
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise


@asynccontextmanager
async def serving(config: uvicorn.Config, listener: socket.socket) -> AsyncIterator[None]:
    """Run one server on one socket; leaving closes it, giving open connections ``timeout_graceful_shutdown``.

    Raises GearshiftError when it ends while starting, TimeoutError after START_S.
    """
    server = QuietServer(config)
    task = asyncio.create_task(server.serve(sockets=[listener]), name=f"http {listener.getsockname()}")
    try:
        async with asyncio.timeout(START_S):
            while not server.started:
                if task.done():
                    task.result()
                    raise GearshiftError("the HTTP server ended while starting", hint="its log says why")
                await asyncio.sleep(0.005)
        yield
    finally:
        server.should_exit = True
        await asyncio.wait({task})
        listener.close()


class AdminSocket:
    """The admin socket and the server on it, for as long as this is entered."""

    def __init__(self, path: Path, config: Callable[[], uvicorn.Config]) -> None:
        """``config`` makes the server's configuration, anew for each time that the socket is made."""
        self._path = path
        self._config = config
        self._stack = AsyncExitStack()
        self._made: tuple[int, int] | None = None  # device and inode: what says that the file is the one made here

    async def __aenter__(self) -> Self:
        self._stack.callback(self._path.unlink, missing_ok=True)
        try:
            await self._make()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def restore(self) -> bool:
        """Make the socket anew when its file was removed or replaced; whether it was.

        Who is connected to the lost one stays connected. Raises GearshiftError when it cannot be made.
        """
        if self._identity() == self._made:
            return False
        await self._make()
        return True

    async def _make(self) -> None:
        listener = bind_admin(self._path)
        self._made = self._identity()  # before anything is waited for: two reloads at once make one socket
        await self._stack.enter_async_context(serving(self._config(), listener))

    def _identity(self) -> tuple[int, int] | None:
        try:
            status = self._path.lstat()
        except OSError:
            return None
        return status.st_dev, status.st_ino
