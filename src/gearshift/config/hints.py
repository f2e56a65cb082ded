"""Which keys belong where, for whoever wrote one that does not."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from gearshift.config.keypath import KeyPath
from gearshift.config.schema import json_schema

# What people who come from llama-swap write, and its name here; their whole files are for the importer.
LLAMA_SWAP_KEYS = {
    "cmd": "engine: and args:; `gearshift config import FILE` carries a whole file over",
    "cmdStop": "stop: of a command variant",
    "ttl": "idle: {unload_after: 10m}",
    "globalTTL": "defaults: {idle: {unload_after: 10m}}",
    "healthCheckTimeout": "defaults: {load_timeout: 10m}",
    "unloadTimeout": "stop_grace:",
    "checkEndpoint": "probe: http:PATH",
    "macros": "extends: and ${env:NAME}",
    "hooks": "preload:",
    "concurrencyLimit": "max_inflight: and queue_limit:",
    "useModelName": "not needed: engines are asked under the name they serve",
    "startPort": "not needed: ports are picked",
    "sendLoadingState": "not needed: waiting streams get comment lines",
}

_Node = dict[str, Any]  # a part of the JSON schema


def schema_keys(path: KeyPath) -> tuple[str, ...]:
    """The keys that the schema knows inside the section at a path; empty where any key goes."""
    nodes = [_schema()]
    for part in path:
        nodes = [inner for node in nodes for inner in _inside(node, part)]
    sections = (section for node in nodes for section in _alternatives(node))
    return tuple(dict.fromkeys(key for section in sections for key in section.get("properties", ())))


@cache
def _schema() -> _Node:
    return json_schema()


def _alternatives(node: _Node) -> Iterator[_Node]:
    if reference := node.get("$ref"):
        yield from _alternatives(_schema()["$defs"][reference.rsplit("/", 1)[-1]])
    for option in node.get("anyOf", ()):
        yield from _alternatives(option)
    yield node


def _inside(node: _Node, part: str | int) -> Iterator[_Node]:
    for section in _alternatives(node):
        if isinstance(part, int):
            inner = section.get("items")
        else:
            inner = section.get("properties", {}).get(part, section.get("additionalProperties"))
        if isinstance(inner, dict):
            yield inner
