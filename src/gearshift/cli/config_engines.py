"""Which engine each variant of a configuration would be started with, on this box and now."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from gearshift.cli.output import GAP
from gearshift.domain.engine import EngineInstall
from gearshift.domain.errors import GearshiftError
from gearshift.domain.variant import EngineRef, Variant

ORIGIN = "this box"
Found = Mapping[str, EngineInstall | GearshiftError]  # by variant id


def find_engines(variants: Mapping[str, Variant], find: Callable[[EngineRef], EngineInstall]) -> Found:
    """The installation that ``find`` gives for each variant, or why there is none."""

    @cache
    def found(ref: EngineRef) -> EngineInstall | GearshiftError:
        try:
            return find(ref)
        except GearshiftError as error:
            return error

    return {name: found(variant.engine) for name, variant in variants.items()}


def engine_comments(found: Found) -> Iterator[str]:
    """Lines of YAML comments, a variant each, below the file that was shown."""
    if not found:
        return
    yield "# the engine of each variant, as this box would choose it now:"
    width = max(map(len, found))
    for name, engine in found.items():
        yield f"#   {name:<{width}}{GAP}{_words(engine)}"


def engine_values(variants: Mapping[str, Variant], found: Found) -> Iterator[dict[str, Any]]:
    """The same as values with path and origin; null = none is installed."""
    for name, engine in found.items():
        path = f"models.{variants[name].model}.variants.{variants[name].name}.engine.found"
        yield {"path": path, "value": _document(engine), "origin": ORIGIN}


def _words(engine: EngineInstall | GearshiftError) -> str:
    if isinstance(engine, GearshiftError):
        return f"none: {engine.message}" + (f" ({engine.hint})" if engine.hint else "")
    if engine.kind == "command":
        return "its own command"
    kept = "managed" if engine.managed else "your own"
    return f"{engine.kind} {engine.version or '(version unknown)'}, {kept}: {engine.path}"


def _document(engine: EngineInstall | GearshiftError) -> dict[str, Any] | None:
    if isinstance(engine, GearshiftError):
        return None
    return {
        "engine": engine.kind,
        "version": engine.version,
        "managed": engine.managed,
        "path": None if engine.kind == "command" else str(engine.path),
    }
