"""The OpenAPI 3.1 description, made from the table of operations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode

from gearshift.web.bodies import NoQuery, Nothing
from gearshift.web.operations import Operation

_REF = "#/components/schemas/{model}"
_ERROR_SCHEMA = {
    "type": "object",
    "required": ["error", "src"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "code", "param"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "code": {"type": "string"},
                "param": {"type": ["string", "null"]},
            },
        },
        "src": {"const": "gearshift"},
    },
}
_MEANING = {
    200: "OK", 201: "Created", 202: "Accepted", 204: "Done",
    400: "A parameter or the body is invalid", 401: "An operator's key is missing or wrong",
    403: "Foreign Host or Origin", 404: "No such variant, lease or job",
    409: "The variant is not running", 413: "The body is too large",
    429: "The variant's queue is full; see Retry-After", 503: "It could not be loaded or stopped, or we are stopping",
}  # fmt: skip

Schemas = dict[tuple[str, str], dict[str, Any]]  # by the operation's summary and the schema's mode


def describe(table: Sequence[Operation[Any, Any]], *, prefix: str, version: str, remote: bool) -> dict[str, Any]:
    """The whole description; ``remote`` adds the operator's key and the errors that come with it."""
    schemas, components = _schemas(table)
    paths: dict[str, dict[str, Any]] = {}
    for operation in table:
        plain_path = prefix + re.sub(r":path\}", "}", operation.path)
        described = _operation(operation, schemas, (401, 403) if remote else ())
        paths.setdefault(plain_path, {})[operation.method.lower()] = described
    security = {"operatorKey": {"type": "http", "scheme": "bearer"}} if remote else {}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Gearshift admin API", "version": version},
        "paths": paths,
        "components": {"schemas": {"Error": _ERROR_SCHEMA, **components}, "securitySchemes": security},
        "security": [{"operatorKey": []}] if remote else [],
    }


def _schemas(table: Sequence[Operation[Any, Any]]) -> tuple[Schemas, dict[str, Any]]:
    """Schemas of bodies and results by (operation, role), and the component schemas they refer to."""
    inputs: list[tuple[str, JsonSchemaMode, TypeAdapter[Any]]] = [
        (operation.summary, "validation", TypeAdapter(operation.body)) for operation in table
    ]
    inputs += [(operation.summary, "serialization", operation.result) for operation in table if operation.result]
    by_use, definitions = TypeAdapter.json_schemas(inputs, ref_template=_REF)
    schemas: Schemas = {(summary, mode): schema for (summary, mode), schema in by_use.items()}
    return schemas, definitions.get("$defs", {})


def _operation(operation: Operation[Any, Any], schemas: Schemas, guarded: tuple[int, ...]) -> dict[str, Any]:
    failures = (400, 413, *guarded, *operation.errors)
    described: dict[str, Any] = {
        "summary": operation.summary,
        "operationId": f"{operation.answers.__module__.rpartition('.')[2]}.{operation.answers.__name__}",
        "parameters": [*_path_parameters(operation), *_query_parameters(operation)],
        "responses": {str(operation.status): _success(operation, schemas), **_failures(failures)},
    }
    if operation.body is not Nothing:
        content = {"application/json": {"schema": schemas[operation.summary, "validation"]}}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _path_parameters(operation: Operation[Any, Any]) -> list[dict[str, Any]]:
    names = re.findall(r"\{(\w+)", operation.path)
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}} for name in names
    ]


def _query_parameters(operation: Operation[Any, Any]) -> list[dict[str, Any]]:
    if operation.query is NoQuery:
        return []
    properties = operation.query.model_json_schema()["properties"]
    return [{"name": name, "in": "query", "required": False, "schema": schema} for name, schema in properties.items()]


def _success(operation: Operation[Any, Any], schemas: Schemas) -> dict[str, Any]:
    response: dict[str, Any] = {"description": _MEANING[operation.status]}
    if operation.result is not None:
        response["content"] = {"application/json": {"schema": schemas[operation.summary, "serialization"]}}
    elif operation.media_type != "application/json":
        response["content"] = {operation.media_type: {"schema": {"type": "string"}}}
    return response


def _failures(statuses: tuple[int, ...]) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": _REF.format(model="Error")}}}
    return {str(status): {"description": _MEANING[status], "content": content} for status in sorted(statuses)}
