"""The schema, its packaged file, the defaults, the examples and the documentation say the same."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from pydantic import BaseModel

from gearshift.config import SCHEMA_FILE, json_schema, schema
from gearshift.config.document import read_document
from gearshift.config.files import Base
from gearshift.config.schema import FileSection, VariantSection
from gearshift.config.variant import build_variant
from gearshift.domain.settings import ApiKey, Group, Settings
from gearshift.domain.variant import EngineRef, Variant

_ROOT = Path(__file__).parents[2]
_EXAMPLES = sorted((_ROOT / "examples").glob("*.yaml"))


def _sections() -> Iterator[type[BaseModel]]:
    for value in vars(schema).values():
        if isinstance(value, type) and issubclass(value, schema.Section) and value is not schema.Section:
            yield value


def _keys(section: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in section.model_fields.items()]


def test_the_packaged_schema_is_up_to_date() -> None:
    written = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    assert written == json_schema(), "write it again: gearshift config schema > src/gearshift/config/schema.json"


def test_every_key_is_described() -> None:
    bare = [f"{section.__name__}.{key}" for section in _sections() for key in section.model_fields
            if not section.model_fields[key].description]  # fmt: skip
    assert bare == []


def test_defaults_of_the_file_are_those_of_the_domain() -> None:
    section = VariantSection.model_validate({"engine": "vllm"})
    built = build_variant("m", "v", section, Base(Path("/"), Path("/")), {})
    assert built == Variant("m", "v", EngineRef("vllm"))
    file = FileSection()
    settings = Settings()
    assert file.listen == f"{settings.host}:{settings.port}"
    assert file.body_limit == settings.body_limit_bytes
    assert file.keepalive == settings.keepalive_s
    assert file.allow_open == settings.allow_open
    group = schema.GroupSection(members=["m"])
    assert Group("g", ("m",)) == Group("g", ("m",), group.swap, group.exclusive, group.persistent)
    assert schema.ApiKeySection(name="a").role == ApiKey("a", "s").role


@pytest.mark.parametrize("file", _EXAMPLES, ids=lambda file: file.name)
def test_editors_accept_every_example(file: Path) -> None:
    validator = jsonschema_rs.validator_for(json_schema())
    tree: Any = read_document(file.read_text(encoding="utf-8")).tree
    assert [str(error) for error in validator.iter_errors(tree)] == []


def test_editors_reject_an_unknown_key() -> None:
    validator = jsonschema_rs.validator_for(json_schema())
    assert not validator.is_valid({"modls": {}})
    assert not validator.is_valid({"models": {"m": {"variants": {"v": {"contxt": 3}}}}})


def test_the_annotated_example_holds_every_key() -> None:
    text = (_ROOT / "examples/gearshift.example.yaml").read_text(encoding="utf-8")
    shown = {str(part) for path in read_document(text).lines for part in path}
    missing = {key for section in _sections() for key in _keys(section)} - shown
    assert missing == set()


def test_the_annotated_example_shows_the_defaults_as_they_are() -> None:
    """Keys of the file and of `defaults` that have a default are shown with it, so that a reader can trust them."""
    text = (_ROOT / "examples/gearshift.example.yaml").read_text(encoding="utf-8")
    tree: dict[str, Any] = read_document(text).tree
    example = FileSection.model_validate(tree)
    assert example.defaults == FileSection().defaults
    for key in ("listen", "allow_open", "cors_origins", "allowed_hosts", "body_limit", "keepalive"):
        assert getattr(example, key) == getattr(FileSection(), key)


def test_the_documentation_explains_every_key() -> None:
    text = (_ROOT / "docs/configuration.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([^`\n]+)`", text))
    missing = {key for section in _sections() for key in _keys(section)} - named
    assert missing == {"kind"}, "kind is written in its long forms {kind, version, path} and {kind, path}"


def test_the_documentation_gives_the_defaults_as_they_are() -> None:
    text = (_ROOT / "docs/configuration.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", text, flags=re.MULTILINE))
    wrong = {}
    for section in (FileSection, schema.DefaultsSection, schema.GroupSection, schema.ApiKeySection):
        for key, field in section.model_fields.items():
            default = str(field.default).lower() if isinstance(field.default, bool) else str(field.default)
            if key in rows and rows[key] != default:
                wrong[key] = rows[key], default
    assert wrong == {}
    assert {"load_timeout", "queue_limit", "listen", "swap", "role"} <= rows.keys()
