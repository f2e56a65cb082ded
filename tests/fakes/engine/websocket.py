"""A websocket that echoes: the upgrade and just enough framing (RFC 6455)."""

import base64
import hashlib

from fakes.engine.http import Connection, Request

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455 section 1.3
CLOSE, PING, PONG = 8, 9, 10


def echo(connection: Connection, request: Request) -> int | None:
    """Answer the upgrade, then echo text and binary frames until the peer closes; the code of its close.

    The message "close N" is answered with a close of that code, "cut" by hanging up without one.
    """
    accept = base64.b64encode(hashlib.sha1(request.header("sec-websocket-key").encode() + GUID).digest())  # noqa: S324 - the RFC's
    connection.write(
        b"HTTP/1.1 101 Fake\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
        + accept
        + b"\r\n\r\n"
    )
    while frame := _read_frame(connection):
        opcode, payload = frame
        if payload == b"cut":
            return None
        if payload.startswith(b"close "):
            opcode, payload = CLOSE, int(payload.removeprefix(b"close ")).to_bytes(2, "big")
        _write_frame(connection, PONG if opcode == PING else opcode, payload)
        if opcode == CLOSE:
            return int.from_bytes(payload[:2], "big") if payload else None
    return None


def _read_frame(connection: Connection) -> tuple[int, bytes] | None:
    head = connection.reader.read(2)
    if len(head) < 2:
        return None
    size = head[1] & 0x7F
    if size >= 126:
        size = int.from_bytes(connection.reader.read(2 if size == 126 else 8), "big")
    mask = connection.reader.read(4) if head[1] & 0x80 else bytes(4)
    payload = connection.reader.read(size)
    return head[0] & 0x0F, bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))


def _write_frame(connection: Connection, opcode: int, payload: bytes) -> None:
    size = len(payload)
    if size < 126:
        head = bytes([0x80 | opcode, size])
    elif size < 65536:
        head = bytes([0x80 | opcode, 126]) + size.to_bytes(2, "big")
    else:
        head = bytes([0x80 | opcode, 127]) + size.to_bytes(8, "big")
    connection.write(head + payload)
