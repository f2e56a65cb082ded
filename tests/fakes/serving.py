"""Real HTTP servers for tests: an ASGI app on a unix socket or a loopback port, in this loop or in a thread."""

from __future__ import annotations

import asyncio
import http.client
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import uvicorn


async def until(condition: Callable[[], bool]) -> None:
    """Waits for a condition that nothing announces. Raises TimeoutError after 5 s."""
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.005)


def healthy(port: int) -> bool:
    """Whether a server on a loopback port answers its health path; blocking."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def bound(path: Path | None) -> socket.socket:
    """A listening socket on ``path``, or on a free loopback port."""
    listener = socket.socket(socket.AF_UNIX if path else socket.AF_INET)
    listener.bind(str(path) if path else ("127.0.0.1", 0))
    listener.listen()
    return listener


def _server(app: Any) -> uvicorn.Server:
    return uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1))


@asynccontextmanager
async def serving(app: Any, path: Path | None = None) -> AsyncIterator[socket.socket]:
    """Serves in the running loop; yields the listening socket."""
    server, listener = _server(app), bound(path)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await until(lambda: server.started)
        yield listener
    finally:
        server.should_exit = True
        await task
        listener.close()


@contextmanager
def serving_in_thread(app: Any, path: Path | None = None) -> Iterator[socket.socket]:
    """Serves from a thread, for blocking clients such as the CLI; yields the listening socket."""
    server, listener = _server(app), bound(path)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield listener
    finally:
        server.should_exit = True
        thread.join(timeout=10)
        listener.close()
