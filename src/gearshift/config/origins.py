"""Where each resolved value came from, by the place it has in the resolved file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from gearshift.config.document import Document
from gearshift.config.files import Base
from gearshift.config.keypath import KeyPath
from gearshift.config.layers import Merged
from gearshift.config.loaded import Origin
from gearshift.config.schema import DefaultsSection, FileSection, ModelSection, VariantSection

_ENGINE_CHOOSES = frozenset({"context", "kv_dtype", "kv_bytes", "parallel", "max_inflight"})
_ELSEWHERE = frozenset({"extends"})  # resolved away

_WEIGHTS: frozenset[KeyPath] = frozenset({("weights",), ("speculation", "draft")})
_HOLD_PATHS = frozenset({"engines", "api_keys"})
_PATHS: frozenset[KeyPath] = frozenset({("template",), ("engine", "path")})

REDACTED = "(redacted)"
_SECRET = re.compile(r"(^|[-_])(api[-_]?key|keys?|token|secret|password|passwd|credentials?)$", re.IGNORECASE)

Leaves = Iterator[tuple[KeyPath, Origin]]


def variant_origins(at: KeyPath, merged: Merged, document: Document, base: Base) -> Leaves:
    """Every value of one variant in the order of the schema, defaults included.

    Values are as written, but for absolute paths and for secrets, which are left out.
    """
    for path, default in _defaults(VariantSection):
        given = [leaf for leaf in merged.sources if leaf[: len(path)] == path]
        for leaf in given:
            layer = merged.sources[leaf]
            source = (*layer.at, *leaf)
            written = document.get(source)
            value = REDACTED if _is_secret(leaf, written) else _absolute(leaf, written, base)
            yield (*at, *leaf), Origin(value, layer.kind, document.line_of(source), document.file, layer.inherited_from)
        if not given and not _covered(path, merged):
            yield (*at, *path), Origin(default, "engine" if path[0] in _ENGINE_CHOOSES else "default")


def section_origins(
    model: type[FileSection | ModelSection], at: KeyPath, document: Document, base: Base, skip: set[str]
) -> Leaves:
    """The values of the file's top or of a model itself; ``skip`` names the keys that are resolved elsewhere."""
    for path, default in _defaults(model):
        if path[0] in skip:
            continue
        value = document.get((*at, *path))
        if value is None:
            yield (*at, *path), Origin(default, "default")
        else:
            rooted = _rooted(value, base) if path[0] in _HOLD_PATHS else value
            yield (*at, *path), Origin(rooted, "file", document.line_of((*at, *path)), document.file)


def _defaults(model: type[BaseModel]) -> Iterator[tuple[KeyPath, object]]:
    """Each key with its default as the file would write it; sections inside are opened, a variant's own keys first."""
    inherited = DefaultsSection.model_fields if model is VariantSection else {}
    for name, field in sorted(model.model_fields.items(), key=lambda item: item[0] in inherited):
        key = field.alias or name
        default: Any = None if field.default is PydanticUndefined else field.default
        inner = field.annotation
        if default == {} and isinstance(inner, type) and issubclass(inner, BaseModel):
            for path, value in _defaults(inner):
                yield (key, *path), value
        elif key not in _ELSEWHERE:
            yield (key,), default["kind"] if isinstance(default, dict) and "kind" in default else default


def _covered(path: KeyPath, merged: Merged) -> bool:
    """A short form (`idle`, `probe`) stands above the leaf."""
    return any(path[: len(leaf)] == leaf for leaf in merged.sources)


def _is_secret(path: KeyPath, value: object) -> bool:
    """A flag or variable named like a secret, unless it only says where the secret is."""
    return path[0] in {"args", "env"} and _SECRET.search(str(path[-1])) is not None and "${env:" not in str(value)


def _absolute(path: KeyPath, value: object, base: Base) -> object:
    """A variant's path as an absolute one; one with a placeholder stays as written, for what fills it may be secret."""
    if not isinstance(value, str) or "${" in value:
        return value
    if path in _WEIGHTS:
        return base.weights(value)
    if path in _PATHS:
        return str(base.path(value))
    kind, at, place = value.partition("@")
    return f"{kind}@{base.path(place)}" if path == ("engine",) and at else value


def _rooted(value: object, base: Base) -> object:
    """The same for the paths inside `engines:` and `api_keys:`."""
    if isinstance(value, list):
        return [_rooted(item, base) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: str(base.path(item)) if _is_path(key, item) else item for key, item in value.items()}


def _is_path(key: str, value: object) -> bool:
    return key in {"path", "key_file"} and isinstance(value, str) and "${" not in value
