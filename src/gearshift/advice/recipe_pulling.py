"""Fetching exactly what a lock names: what is missing, whether it fits, and the template rebuilt from its patch."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gearshift.advice.recipe import PinnedFile, PinnedFiles, PinnedTemplate, Recipe
from gearshift.advice.recipe_places import Places
from gearshift.artifacts import PARTIAL, Hub, Template, apply_patch, difference, model_template, repository_folder
from gearshift.domain.errors import GearshiftError
from gearshift.domain.units import format_bytes

Told = Callable[[str, int], None]  # a file's name, bytes of it at hand since the last call


@dataclass(frozen=True, slots=True)
class Wanted:
    """One file that is not here yet."""

    files: PinnedFiles
    file: PinnedFile
    target: Path

    @property
    def left_bytes(self) -> int:
        """What is still to come, after an earlier attempt."""
        partial = self.target.with_name(self.target.name + PARTIAL)
        return max(0, self.file.bytes - (partial.stat().st_size if partial.exists() else 0))


def wanted_files(recipes: Mapping[str, Recipe], places: Places, told: Told) -> tuple[Wanted, ...]:
    """Locked files that are not here, each once; those that are here are compared byte by byte.

    Raises GearshiftError for a file that is here and is another: nothing of the user's is ever replaced.
    """
    wanted = {item.target: item for recipe in recipes.values() for item in _of_recipe(recipe, places)}
    missing = []
    for item in wanted.values():
        if not item.target.exists():
            missing.append(item)
        elif what := difference(item.target, item.file.promise, partial(told, item.file.name)):
            raise GearshiftError(
                f"{item.target} is another file than the lock names: {what}",
                hint="move it away, then pull again",
            )
    return tuple(missing)


def _of_recipe(recipe: Recipe, places: Places) -> Iterator[Wanted]:
    for files in recipe.files.values():
        for file in files.files:
            yield Wanted(files, file, places.file(files, file))


def refuse_outside(recipes: Mapping[str, Recipe], places: Places) -> None:
    """Raises GearshiftError for a place, out of the lock's own folder and the hub's cache, that would be written to."""
    root = places.root.resolve()
    for name, recipe in recipes.items():
        folders = [files.folder for files in recipe.files.values() if files.folder is not None]
        own = [recipe.template.file] if recipe.template and recipe.template.file else []
        for place in (*folders, *own):
            if not (root / place).resolve().is_relative_to(root):
                raise GearshiftError(
                    f"{name} would be written to {place}, outside of {root}",
                    hint="if the lock is yours, or you trust it, pull with --outside",
                )


def check_room(wanted: Iterable[Wanted]) -> None:
    """Raises GearshiftError when what is to come does not fit on its disk."""
    needed: dict[Path, int] = {}
    for item in wanted:
        disk = next(folder for folder in item.target.parents if folder.exists())
        needed[disk] = needed.get(disk, 0) + item.left_bytes
    for folder, count in needed.items():
        free = shutil.disk_usage(folder).free
        if count > free:
            raise GearshiftError(
                f"{format_bytes(count)} are to be fetched to {folder}, {format_bytes(free)} are free there",
                hint="make room, or move the lock and its models to another disk",
            )


def fetch_file(item: Wanted, hub: Hub, told: Told) -> None:
    """Fetch one file and compare it with the lock. Raises GearshiftError; a file that is another is removed."""
    repository, revision = item.files.repository, item.files.revision
    if repository is None or revision is None:
        raise GearshiftError(
            f"{item.target} is not here, and the lock does not say where it is from",
            hint="lock with --source VARIANT=ORG/NAME where the file is, or copy it by hand",
        )
    path = item.file.path or item.file.name
    hub.fetch(repository, revision, path, item.target, item.file.promise, partial(told, item.file.name))
    if what := difference(item.target, item.file.promise):
        item.target.unlink()
        raise GearshiftError(
            f"{repository}: {path} came as another file than the lock names: {what}; it was removed",
            hint="pull again; if it stays so, the mirror or the way to it changes files",
        )


def name_main_branch(recipes: Mapping[str, Recipe], places: Places) -> None:
    """Let engines that ask the cache for a repository find the pinned commit, unless its main branch is known."""
    for files in (files for recipe in recipes.values() for files in recipe.files.values()):
        if files.folder is None and files.repository and files.revision:
            main = repository_folder(places.hub_cache, files.repository) / "refs/main"
            if not main.exists():
                main.parent.mkdir(parents=True, exist_ok=True)
                main.write_text(files.revision)


def restore_template(recipe: Recipe, places: Places) -> Path | None:
    """Write the variant's own template where it is not here; returns the file written.

    Raises GearshiftError where the base is not the pinned one or the result is not the pinned template.
    """
    pinned = recipe.template
    if pinned is None or pinned.file is None or (places.root / pinned.file).exists():
        return None
    text = "\n".join(pinned.text) if pinned.text is not None else _patched(pinned, recipe, places)
    if Template(text, pinned.file).sha256 != pinned.sha256:
        raise GearshiftError(f"the template of the lock is not the one it names: sha256 {pinned.sha256}")
    target = places.root / pinned.file
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(text.encode())
    return target


def _patched(pinned: PinnedTemplate, recipe: Recipe, places: Places) -> str:
    weights = recipe.files.get("weights")
    if weights is None or pinned.patch is None:
        raise GearshiftError("the lock holds neither the template nor a patch for it", hint="write it anew")
    folder = places.folder(weights)
    place = next((folder / file.name for file in weights.files if file.name.endswith(".gguf")), folder)
    base = model_template(place)
    if base is None or base.sha256 != pinned.base_sha256:
        found = f"sha256 {base.sha256}" if base else "none"
        raise GearshiftError(
            f"the patch is for the template sha256 {pinned.base_sha256}, the model brings {found}",
            hint="pull the locked files first",
        )
    return apply_patch(base.text, "\n".join(pinned.patch))
