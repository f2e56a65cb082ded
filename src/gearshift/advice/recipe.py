"""A recipe: a variant with everything pinned, and the file that holds recipes, ``gearshift.lock``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from gearshift.artifacts import Promise
from gearshift.domain.errors import GearshiftError

LOCK_FILE = "gearshift.lock"
FORMAT = 1
_COMMIT = re.compile(r"[0-9a-f]{40,64}")
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


@dataclass(frozen=True, slots=True)
class PinnedFile:
    """One file: its name below the folder, its size and hash; ``path`` in the repository where it differs."""

    name: str
    bytes: int
    sha256: str
    path: str | None = None

    @property
    def promise(self) -> Promise:
        return Promise(self.bytes, self.sha256)


@dataclass(frozen=True, slots=True)
class PinnedFiles:
    """The files of a model. ``repository`` None: nobody said where they are from, so they cannot be fetched.

    ``folder`` is relative to the lock's own folder, or absolute; None = the hub's cache, as for weights by hub id.
    """

    files: tuple[PinnedFile, ...]
    folder: str | None = None
    repository: str | None = None
    revision: str | None = None  # a commit

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)


@dataclass(frozen=True, slots=True)
class PinnedEngine:
    """The engine the recipe was made with; ``digest`` is of the binary, where there is one."""

    kind: str
    version: str | None = None
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class PinnedTemplate:
    """The chat template in use. One that the model brings is pinned by its hash alone.

    ``file`` is where the variant's own lies. It is kept as a ``patch`` over the model's template where there is one,
    whose hash is ``base_sha256``, else whole in ``text``; both line by line, so that the lock can be read.
    """

    sha256: str
    file: str | None = None
    base_sha256: str | None = None
    patch: tuple[str, ...] | None = None
    text: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Recipe:
    """One variant, pinned.

    ``settings`` are the variant's keys as the configuration has them, inheritance applied, paths below the lock's
    folder relative to it. ``files`` are by what they are: ``weights``, ``draft``, ``mmproj``.
    """

    settings: Mapping[str, Any]
    engine: PinnedEngine
    files: Mapping[str, PinnedFiles] = field(default_factory=dict)
    template: PinnedTemplate | None = None


@dataclass(frozen=True, slots=True)
class Lock:
    """Recipes by variant id."""

    recipes: Mapping[str, Recipe]
    format: int = field(default=FORMAT)

    def with_recipes(self, recipes: Mapping[str, Recipe]) -> Lock:
        """These recipes in place of those of the same variants; the others stay."""
        return Lock({**self.recipes, **recipes})


def read_lock(path: Path) -> Lock:
    """A lock, or a recipe that was exported. Raises GearshiftError with the place of what is wrong in it."""
    try:
        lock = msgspec.json.decode(path.read_bytes(), type=Lock)
    except OSError as error:
        raise GearshiftError(f"{path} cannot be read: {error.strerror}", hint="write one: gearshift lock") from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise GearshiftError(f"{path} is no lock: {error}", hint="write it again: gearshift lock") from error
    if lock.format != FORMAT:
        raise GearshiftError(f"{path} has format {lock.format}, {FORMAT} is known", hint="use a newer Gearshift")
    for name, recipe in lock.recipes.items():
        for files in recipe.files.values():
            if harm := _harm(files):
                raise GearshiftError(f"{path}: {name} {harm}", hint="do not use this recipe")
    return lock


def _harm(files: PinnedFiles) -> str | None:
    """A recipe comes from somebody else: no name in it may lead anywhere but below the folder that it names."""
    for file in files.files:
        if not file.name or Path(file.name).is_absolute() or ".." in Path(file.name).parts:
            return f"names the file {file.name!r}, which leads out of its folder"
    if files.revision is not None and not _COMMIT.fullmatch(files.revision):
        return f"names the revision {files.revision!r}, which is no commit"
    if files.repository is not None and not _REPOSITORY.fullmatch(files.repository):
        return f"names the repository {files.repository!r}, which is none"
    return None


def lock_text(lock: Lock) -> str:
    """The lock as it is written: one field a line, so that a change is a small diff."""
    recipes = {name: _without_nulls(asdict(recipe)) for name, recipe in sorted(lock.recipes.items())}
    return json.dumps({"format": lock.format, "recipes": recipes}, indent=2, ensure_ascii=False) + "\n"


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list | tuple) else value
