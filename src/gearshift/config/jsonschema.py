"""The JSON schema for editors; the package carries it as a file, so that an editor can be pointed at it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gearshift.config.schema import file_schema

SCHEMA_FILE = Path(__file__).with_name("schema.json")


def json_schema() -> dict[str, Any]:
    """The schema of `gearshift.yaml`, every key described."""
    return file_schema()


def schema_text() -> str:
    """What the packaged file holds."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
