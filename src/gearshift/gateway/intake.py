"""Reading a request's body within the limit."""

from __future__ import annotations

from typing import NoReturn

from gearshift.domain.units import format_bytes
from gearshift.edge.asgi import ClientGoneError, Headers, Receive, header
from gearshift.edge.errors import RefusedError


def check_encoding(headers: Headers) -> None:
    """Refuse a compressed body: it could not be edited, and what it unpacks to has no limit. Raises RefusedError."""
    encoding = header(headers, b"content-encoding")
    if encoding is not None and encoding.strip().lower() not in {b"", b"identity"}:
        raise RefusedError(
            415,
            "unsupported_encoding",
            f"request bodies with Content-Encoding {encoding.decode('latin-1')!r} are not accepted",
            hint="send the body uncompressed",
        )


def check_length(headers: Headers, limit: int) -> None:
    """Refuse by Content-Length alone, before any byte is read. Raises RefusedError (413)."""
    declared = header(headers, b"content-length")
    if declared is not None and declared.isdigit() and int(declared) > limit:
        too_large(limit, f"the body has {format_bytes(int(declared))}")


def too_large(limit: int, what: str) -> NoReturn:
    """Raise the 413 of this configuration."""
    raise RefusedError(
        413, "body_too_large", f"{what}; the limit is {format_bytes(limit)}", hint="raise body_limit to allow more"
    )


def out_of_memory() -> RefusedError:
    """The 503 of a request for which this process could get no memory: no fault of its form."""
    return RefusedError(
        503,
        "out_of_memory",
        "the server has no memory left for this request",
        hint="send less at once or later; whoever runs the server may raise its memory limit or lower body_limit",
    )


async def read_body(receive: Receive, headers: Headers, limit: int) -> bytes:
    """The whole body. Raises RefusedError (413, 415) or ClientGoneError."""
    check_encoding(headers)
    check_length(headers, limit)
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            too_large(limit, "the body is larger than allowed")
        chunks.append(chunk)
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)
