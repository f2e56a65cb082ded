"""Tell systemd where we stand, when it started us (Type=notify)."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping


def notify(env: Mapping[str, str], message: str) -> None:
    """Send one state message such as ``READY=1``; does nothing outside systemd."""
    address = env.get("NOTIFY_SOCKET")
    if not address:
        return
    name = "\0" + address[1:] if address.startswith("@") else address
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.connect(name)
        sender.sendall(message.encode())
