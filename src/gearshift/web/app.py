"""The ASGI application: routes from the table, errors in one shape, the guard in front where it listens on TCP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import gearshift
from gearshift.domain.admin import Admin
from gearshift.domain.errors import GearshiftError
from gearshift.domain.settings import Settings
from gearshift.edge.asgi import ClientGoneError
from gearshift.edge.errors import RefusedError
from gearshift.web.errors import error_response
from gearshift.web.guard import Guard
from gearshift.web.openapi import describe
from gearshift.web.operations import Operation
from gearshift.web.table import PREFIX, TABLE

CLIENT_CLOSED = 499  # nginx's number for an answer that nobody waited for; it reaches the log only

log = structlog.get_logger(__name__)

Endpoint = Callable[[Request], Awaitable[Response]]


def create_admin(admin: Admin, settings: Callable[[], Settings], *, remote: bool) -> Starlette:
    """The admin API under /api/v1.

    Args:
        admin: what answers.
        settings: the configuration in force, asked for on every request because a reload changes it.
        remote: True where it is reachable over TCP: an operator's key and our own Host and Origin are then required.
            False for the unix socket, whose file mode is its guard.
    """
    description = JSONResponse(describe(TABLE, prefix=PREFIX, version=gearshift.__version__, remote=remote))

    async def openapi(_: Request) -> Response:
        return description

    routes = [_route("GET", "/openapi.json", openapi), *(_operation(row, admin) for row in TABLE)]
    guards = [Middleware(Guard, settings=settings)] if remote else []
    return Starlette(routes=routes, middleware=guards, exception_handlers=_HANDLERS)


def _operation(operation: Operation[Any, Any], admin: Admin) -> Route:
    async def endpoint(request: Request) -> Response:
        return await operation(admin, request)

    return _route(operation.method, operation.path, endpoint)


def _route(method: str, path: str, endpoint: Endpoint) -> Route:
    """A route for exactly this method: HEAD, which comes along with GET, would leave streams open for nobody."""
    route = Route(PREFIX + path, endpoint, methods=[method])
    route.methods = {method}
    return route


async def _named(_: Request, error: Exception) -> Response:
    if not isinstance(error, GearshiftError):
        raise error
    return error_response(error)


async def _gone(_: Request, __: Exception) -> Response:
    return Response(status_code=CLIENT_CLOSED)


async def _unrouted(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    code = "not_found" if error.status_code == HTTPStatus.NOT_FOUND else "method_not_allowed"
    message = f"{error.detail}: {request.method} {request.url.path} (see {PREFIX}/openapi.json)"
    response = error_response(RefusedError(error.status_code, code, message, param="path"))
    response.headers.update(error.headers or {})
    return response


async def _unforeseen(request: Request, error: Exception) -> Response:
    log.error("admin request failed", method=request.method, path=request.url.path, exc_info=error)
    message = f"internal error: {type(error).__name__}; the server's log has the details"
    return error_response(RefusedError(500, "internal_error", message))


_HANDLERS: dict[Any, Callable[[Request, Exception], Awaitable[Response]]] = {
    GearshiftError: _named,
    ClientGoneError: _gone,
    HTTPException: _unrouted,
    Exception: _unforeseen,
}
