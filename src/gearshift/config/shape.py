"""Holds a tree against the schema: every misfit becomes a problem, and what fits goes on to the next check."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from itertools import groupby

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gearshift.config.document import Document
from gearshift.config.hints import LLAMA_SWAP_KEYS, schema_keys
from gearshift.config.keypath import KeyPath, child
from gearshift.config.schema import FileSection
from gearshift.domain.errors import Problem
from gearshift.domain.spelling import near

_ROUNDS = 20  # each removes at least one misfit; a file that needs more is answered with what was found
_VARIANT_DEPTH = 4  # models, model, variants, variant

_EXPECTED = {
    "string_type": "text", "int_type": "a whole number", "bool_type": "true or false", "float_type": "a number",
    "list_type": "a list", "dict_type": "a mapping", "model_type": "a mapping", "model_attributes_type": "a mapping",
}  # fmt: skip


def check_shape(document: Document, tree: dict[str, object]) -> tuple[dict[str, object], list[Problem]]:
    """The part of the tree that fits the schema, and a problem for each part that does not.

    Misfits are taken out so that the checks which need a sound tree can still run and report in the same pass.
    """
    problems: list[Problem] = []
    sound = copy.deepcopy(tree)
    for _ in range(_ROUNDS):
        errors = _errors(sound)
        if not errors:
            return sound, problems
        problems = problems or list(_problems(errors, document, sound))
        for place in {_place(error["loc"], sound) for error in errors}:
            _remove(sound, place)
    return {}, problems


def without_nulls(tree: dict[str, object]) -> dict[str, object]:
    """The tree as if no key were null: a null takes away what lies below it, so any value may be one.

    Models, variants and groups themselves may not.
    """
    return {key: _stripped(value, (key,)) for key, value in tree.items() if value is not None}


def _stripped(value: object, path: KeyPath) -> object:
    if not isinstance(value, dict):
        return value
    named = path in {("models",), ("groups",)} or (len(path) == _VARIANT_DEPTH - 1 and path[2] == "variants")
    return {key: _stripped(item, (*path, key)) for key, item in value.items() if named or item is not None}


def _errors(tree: dict[str, object]) -> list[ErrorDetails]:
    try:
        FileSection.model_validate(without_nulls(tree))
    except ValidationError as error:
        return error.errors(include_url=False)
    return []


def _problems(errors: list[ErrorDetails], document: Document, tree: dict[str, object]) -> Iterator[Problem]:
    def place(error: ErrorDetails) -> KeyPath:
        return _place(error["loc"], tree)

    for path, group in groupby(sorted(errors, key=lambda error: _sortable(place(error))), key=place):
        together = list(group)
        missing = [error for error in together if error["type"] == "missing"]
        for error in missing:
            yield document.problem(path, f"{error['loc'][-1]} is missing")
        if misfits := [error for error in together if error["type"] != "missing"]:
            yield _misfit(misfits, path, document, tree)


def _misfit(errors: list[ErrorDetails], path: KeyPath, document: Document, tree: dict[str, object]) -> Problem:
    """One problem for one value, however many alternatives of a union it failed."""
    first = errors[0]
    if first["type"] == "extra_forbidden":
        return document.problem(path, f"unknown key {path[-1]!r}", hint=_key_hint(path))
    if first["type"] in {"too_short", "string_too_short"}:
        return document.problem(path, f"{path[-1]} is empty")
    for error in errors:
        if error["type"] == "value_error":
            message, _, hint = str(error["ctx"]["error"]).partition("; ")
            return document.problem(path, message, hint=hint or None)
    expected = " or ".join(dict.fromkeys(_expected(error) for error in errors))
    value = first["input"] if len(errors) == 1 else _value(tree, path)
    return document.problem(path, f"{_shown(value)} is not {expected}", hint=_choice_hint(first))


def _expected(error: ErrorDetails) -> str:
    context = error.get("ctx", {})
    match error["type"]:
        case "literal_error":
            return str(context["expected"]).replace("'", "")
        case "greater_than_equal":
            return f"at least {context['ge']}"
        case "greater_than":
            return f"above {context['gt']}"
        case "string_pattern_mismatch":
            return f"of the form {context['pattern']}"
        case kind:
            return _EXPECTED.get(kind, error["msg"])


def _key_hint(path: KeyPath) -> str | None:
    key = str(path[-1])
    if theirs := LLAMA_SWAP_KEYS.get(key):
        return f"llama-swap's key; here {theirs}"
    if hint := near(key, schema_keys(path[:-1])):
        return hint
    if key in schema_keys(()):
        return "it belongs at the top of the file"
    if len(path) == _VARIANT_DEPTH + 1 and path[2] == "variants":
        return "the engine's own flags go under args:"
    return None


def _choice_hint(error: ErrorDetails) -> str | None:
    if error["type"] != "literal_error" or not isinstance(error["input"], str):
        return None
    return near(error["input"], str(error["ctx"]["expected"]).replace("'", "").replace(" or ", ", ").split(", "))


def _shown(value: object) -> str:
    text = repr(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004 - one line of a terminal


def _place(loc: KeyPath, tree: dict[str, object]) -> KeyPath:
    """The part of pydantic's location that the file has; the rest names alternatives of a union."""
    value: object = tree
    for depth, part in enumerate(loc):
        try:
            value = child(value, part)
        except LookupError:
            return loc[:depth]
    return loc


def _value(tree: object, path: KeyPath) -> object:
    for part in path:
        tree = child(tree, part)
    return tree


def _sortable(path: KeyPath) -> tuple[str, ...]:
    return tuple(str(part) for part in path)


def _remove(tree: dict[str, object], path: KeyPath) -> None:
    """Take out the innermost mapping entry that holds the path: lists go whole, to keep positions true."""
    while path and isinstance(path[-1], int):
        path = path[:-1]
    if not path:
        tree.clear()
        return
    parent: object = tree
    for part in path[:-1]:
        parent = parent.get(part) if isinstance(parent, dict) else None
    if isinstance(parent, dict):
        parent.pop(path[-1], None)
