"""One ASGI application for the TCP listener: the data path, and below /api/ the admin API."""

from __future__ import annotations

from gearshift.edge.asgi import App, Receive, Scope, Send


class Faces:
    """Routes by path prefix; the lifespan goes to the data path, which owns the client session."""

    def __init__(self, gateway: App, admin: App) -> None:
        self._gateway = gateway
        self._admin = admin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        face = self._admin if scope.get("path", "").startswith("/api/") else self._gateway
        await face(scope, receive, send)
