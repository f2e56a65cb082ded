"""The reference: the least that raw ASGI and aiohttp can do to pass a request on and its stream back."""

from __future__ import annotations

import sys
from typing import Any

import aiohttp
import uvicorn


class Bare:
    """No keys, no metering, no disconnect, no errors."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.session: aiohttp.ClientSession | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        if self.session is None:
            self.session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), auto_decompress=False)
        body, more = b"", True
        while more:
            message = await receive()
            body += message["body"]
            more = message["more_body"]
        url = f"{self.upstream}{scope['path']}?{scope['query_string'].decode()}"
        headers = {"content-type": "application/json"}
        async with self.session.post(url, data=body, headers=headers) as response:
            start = {"type": "http.response.start", "status": response.status}
            await send({**start, "headers": [(b"content-type", response.headers["content-type"].encode())]})
            async for chunk in response.content.iter_any():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


if __name__ == "__main__":
    config = {"http": "httptools", "loop": "uvloop", "lifespan": "off", "log_config": None, "access_log": False}
    app: Any = Bare(f"http://127.0.0.1:{sys.argv[2]}")
    uvicorn.run(app, port=int(sys.argv[1]), server_header=False, **config)  # type: ignore[arg-type] # keyword names vary
