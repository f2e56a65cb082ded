"""JSON objects that lie beside weights: config.json, an index of shards, a tokenizer's settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gearshift.artifacts.damage import fail, fail_to_read


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file. Raises GearshiftError naming the file."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        fail_to_read(path, error)
    return json_object(raw, str(path), "is")


def json_object(raw: bytes, name: str, what: str) -> dict[str, Any]:
    """A JSON object from bytes; ``name`` is the file and ``what`` the part of it, with its verb, for the error."""
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError) as error:
        fail(name, f"{what} no JSON: {error}", cause=error)
    return document if isinstance(document, dict) else fail(name, f"{what} no JSON object")
