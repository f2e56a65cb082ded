"""What one operation of the admin API is: its place, its parameters and the function that answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from gearshift.domain.admin import Admin
from gearshift.edge.errors import RefusedError
from gearshift.web.bodies import Body, Query
from gearshift.web.errors import invalid

BODY_LIMIT = 1024**2  # admin bodies are small; the gateway's own limit is for prompts and images

QueryT = TypeVar("QueryT", bound=Query)
BodyT = TypeVar("BodyT", bound=Body)


@dataclass(frozen=True, slots=True)
class Call(Generic[QueryT, BodyT]):
    """One request, validated. ``name`` is the variant, lease or job in the path; empty where there is none."""

    name: str
    query: QueryT
    body: BodyT
    request: Request


@dataclass(frozen=True, slots=True)
class Operation(Generic[QueryT, BodyT]):
    """One row of the table that routing and the OpenAPI description are both made from."""

    method: str
    path: str  # below /api/v1, with at most one parameter
    summary: str
    answers: Callable[[Admin, Call[QueryT, BodyT]], Awaitable[Any]]
    query: type[QueryT]
    body: type[BodyT]
    result: TypeAdapter[Any] | None = None  # None: a stream, or plain text, as ``media_type`` says
    status: int = 200
    media_type: str = "application/json"
    errors: tuple[int, ...] = ()  # beside 400, and 401 and 403 over TCP

    async def __call__(self, admin: Admin, request: Request) -> Response:
        """Validate, answer, encode. Raises GearshiftError."""
        call = Call(
            name=next(iter(request.path_params.values()), ""),
            query=_parsed_query(self.query, request),
            body=await _parsed_body(self.body, request),
            request=request,
        )
        return self._encoded(await self.answers(admin, call))

    def _encoded(self, answer: Any) -> Response:
        if isinstance(answer, Response):
            return answer
        content = b"" if self.result is None else self.result.dump_json(answer)
        media_type = self.media_type if content else None
        return Response(content, self.status, {"Cache-Control": "no-store"}, media_type)


def _parsed_query(model: type[QueryT], request: Request) -> QueryT:
    pairs = request.query_params.multi_items()
    twice = next((key for key, _ in pairs if len(request.query_params.getlist(key)) > 1), None)
    if twice is not None:
        raise RefusedError(400, "invalid_request", f"query.{twice}: given twice", param=f"query.{twice}")
    try:
        return model.model_validate(dict(pairs))
    except ValidationError as error:
        raise invalid(error, place="query") from None


async def _parsed_body(model: type[BodyT], request: Request) -> BodyT:
    """The body as ``model``; an empty one counts as ``{}`` so that POST without a body works from curl."""
    raw = await _limited_body(request)
    try:
        return model.model_validate_json(raw or b"{}")
    except ValidationError as error:
        raise invalid(error, place="body") from None


async def _limited_body(request: Request) -> bytes:
    chunks = bytearray()
    async for chunk in request.stream():
        chunks += chunk
        if len(chunks) > BODY_LIMIT:
            raise RefusedError(413, "body_too_large", f"the body is larger than {BODY_LIMIT} bytes", param="body")
    return bytes(chunks)
