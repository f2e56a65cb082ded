"""A recipe as one file for somebody else's box: nothing in it names a place of this one. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from gearshift.advice.recipe import PinnedFiles, Recipe

_MODELS, _TEMPLATES = "models", "templates"


def exported(recipe: Recipe) -> Recipe:
    """The recipe with its files below ``models/`` and ``templates/`` beside it, and its engine by version.

    GPUs named by UUID are left out: they are this box's. Weights by hub id keep it, with the commit as ``revision``.
    """
    moves = {files.folder: _moved_folder(files) for files in recipe.files.values() if files.folder is not None}
    template = recipe.template
    if template and template.file:
        moves[template.file] = f"{_TEMPLATES}/{PurePosixPath(template.file).name}"
        template = replace(template, file=moves[template.file])
    settings = {key: _moved(value, moves) for key, value in recipe.settings.items()}
    return replace(
        recipe,
        settings=_portable(settings, recipe),
        files={role: replace(files, folder=_new_folder(files, moves)) for role, files in recipe.files.items()},
        template=template,
    )


def pinned_revision(recipe: Recipe) -> str | None:
    """The commit that an engine has to be told of, because it finds the weights by hub id itself; None = by path."""
    weights = recipe.files.get("weights")
    return weights.revision if weights and weights.folder is None else None


def _moved_folder(files: PinnedFiles) -> str:
    """A folder of its own for each model, called like its repository, else like the folder it was in.

    One that was in a folder of many models, called like ours, stays right below it.
    """
    name = (files.repository or PurePosixPath(files.folder or "").name or "model").rpartition("/")[2]
    return _MODELS if name == _MODELS else f"{_MODELS}/{name}"


def _new_folder(files: PinnedFiles, moves: Mapping[str, str]) -> str | None:
    return moves[files.folder] if files.folder is not None else None


def _moved(value: Any, moves: Mapping[str, str]) -> Any:
    match value:
        case str():
            return _moved_path(value, moves)
        case Mapping():
            return {key: _moved(item, moves) for key, item in value.items()}
        case list() | tuple():
            return [_moved(item, moves) for item in value]
        case _:
            return value


def _moved_path(value: str, moves: Mapping[str, str]) -> str:
    for old, new in moves.items():
        if value == old:
            return new
        if old != "." and value.startswith(f"{old}/"):
            return f"{new}/{value.removeprefix(f'{old}/')}"
    files_beside_the_lock = "." in moves and "/" not in value and value.endswith(".gguf")
    return f"{moves['.']}/{value}" if files_beside_the_lock else value


def _portable(settings: dict[str, Any], recipe: Recipe) -> dict[str, Any]:
    if recipe.engine.kind != "command":
        version = recipe.engine.version
        settings["engine"] = {"kind": recipe.engine.kind} | ({"version": version} if version else {})
    if "gpus" in settings:
        settings["gpus"] = [gpu for gpu in settings["gpus"] if isinstance(gpu, int)]
    if not settings.get("gpus"):
        settings.pop("gpus", None)
    if revision := pinned_revision(recipe):
        settings["args"] = {**settings.get("args", {}), "revision": revision}
    return settings
