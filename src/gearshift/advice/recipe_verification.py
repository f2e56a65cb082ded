"""Comparing what is here with what a lock names, byte by byte. Impure: reads files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gearshift.advice.recipe import PinnedTemplate, Recipe
from gearshift.advice.recipe_places import Places
from gearshift.artifacts import Promise, difference, read_template
from gearshift.domain.engine import EngineInstall
from gearshift.domain.errors import GearshiftError
from gearshift.domain.variant import EngineRef

Told = Callable[[str, int], None]  # a file's name, bytes of it hashed since the last call


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as locked: a file, an engine, a template; expected and found, in words."""

    variant: str
    place: str
    what: str


def promised_files(recipes: Mapping[str, Recipe], places: Places) -> dict[Path, tuple[str, Promise]]:
    """Every locked file's place, with a variant that needs it and what it has to be; shared files once."""
    return {
        places.file(files, file): (name, file.promise)
        for name, recipe in recipes.items()
        for files in recipe.files.values()
        for file in files.files
    }


def differing_files(recipes: Mapping[str, Recipe], places: Places, told: Told) -> Iterator[Difference]:
    """Files that are absent or other than locked, in the order of the lock."""
    for path, (variant, promise) in promised_files(recipes, places).items():
        what = difference(path, promise, partial(told, path.name))
        if what:
            yield Difference(variant, str(path), what)


def differing_templates(recipes: Mapping[str, Recipe], places: Places) -> Iterator[Difference]:
    """Templates of the variants' own. One that the model brings is in its files, which are compared as such."""
    for variant, recipe in recipes.items():
        if recipe.template and recipe.template.file:
            path = places.root / recipe.template.file
            if what := _template_difference(path, recipe.template):
                yield Difference(variant, str(path), what)


def _template_difference(path: Path, pinned: PinnedTemplate) -> str | None:
    if not path.exists():
        return "it is not there"
    found = read_template(path).sha256
    return None if found == pinned.sha256 else f"expected sha256 {pinned.sha256}, found {found}"


def differing_engines(
    engines: Mapping[str, EngineRef], recipes: Mapping[str, Recipe], find_engine: Callable[[EngineRef], EngineInstall]
) -> Iterator[Difference]:
    """Engines of another version than locked, or not here. ``engines`` are what the variants ask for."""
    for variant, recipe in recipes.items():
        pinned = recipe.engine
        if pinned.version is None and pinned.digest is None:  # the lock was made without an engine
            continue
        try:
            install = find_engine(engines[variant])
        except GearshiftError as error:
            yield Difference(variant, pinned.kind, error.message)
            continue
        if install.version != pinned.version:
            what = f"expected {pinned.version or 'no version'}, found {install.version or 'no version'}"
            yield Difference(variant, pinned.kind, what)
        elif pinned.version is None and install.digest != pinned.digest:
            yield Difference(variant, pinned.kind, f"expected sha256 {pinned.digest}, found {install.digest}")
