"""Ports: a free one to hand out, and whether one is free again."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

LOOPBACK = "127.0.0.1"
REST_S = 60.0  # a port handed out is not handed out again for so long: its engine may not have bound it yet


class PortPicker:
    """Hands out loopback ports that nobody listens on and that it did not hand out a moment ago."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._given: dict[int, float] = {}

    def pick(self) -> int:
        """Raises OSError when the box has no port left."""
        now = self._clock()
        self._given = {port: at for port, at in self._given.items() if now - at < REST_S}
        while (port := _ephemeral()) in self._given:
            continue
        self._given[port] = now
        return port


def _ephemeral() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def port_free(host: str, port: int) -> bool:
    """Nobody answers there and, on this host, nobody holds it bound. Connections that linger closed do not count.

    Blocks while a host's name is looked up; a name that stands for no address has nobody there.
    """
    try:
        socket.create_connection((host, port), timeout=0.2).close()
    except OSError:
        return not host.startswith("127.") or _bindable(host, port)
    return False


def _bindable(host: str, port: int) -> bool:
    with socket.socket() as probe:
        # With SO_REUSEADDR Linux refuses a port that is listened on, and allows one with connections in TIME_WAIT.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
