"""Where the files of a recipe lie on this box, and the configuration that a recipe stands for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gearshift.advice.recipe import PinnedFile, PinnedFiles, Recipe
from gearshift.artifacts import repository_folder
from gearshift.config import LoadedConfig, parse_config
from gearshift.config.writing import yaml_text
from gearshift.domain.errors import GearshiftError
from gearshift.domain.variant import Variant

_ENVIRONMENT = re.compile(r"\$\{env:(\w+)\}")


@dataclass(frozen=True, slots=True)
class Places:
    """``root`` is the lock's own folder, where relative paths start; ``hub_cache`` holds downloads by hub id."""

    root: Path
    hub_cache: Path

    def folder(self, files: PinnedFiles) -> Path:
        """The folder the files are in, or will be once they are fetched."""
        if files.folder is not None:
            return self.root / files.folder
        return repository_folder(self.hub_cache, files.repository or "") / "snapshots" / (files.revision or "")

    def file(self, files: PinnedFiles, file: PinnedFile) -> Path:
        """One file's place."""
        return self.folder(files) / file.name


def recipe_config(recipes: Mapping[str, Recipe]) -> str:
    """The `gearshift.yaml` that serves these recipes: each model with its variants."""
    models: dict[str, dict[str, Any]] = {}
    for name, recipe in recipes.items():
        model, _, variant = name.partition(":")
        models.setdefault(model, {"variants": {}})["variants"][variant] = dict(recipe.settings)
    return yaml_text({"models": models})


def load_recipes(recipes: Mapping[str, Recipe], file: Path, env: Mapping[str, str]) -> LoadedConfig:
    """The recipes' variants as the configuration would load them, paths relative to ``file``'s folder.

    Variables that a recipe leaves to the environment and that are not set are empty here: nothing is started.
    Raises ConfigError where the settings are none that this Gearshift takes.
    """
    text = recipe_config(recipes)
    unset = {name: "" for name in _ENVIRONMENT.findall(text) if name not in env}
    return parse_config(text, file=file, env={**env, **unset})


def recipe_variant(loaded: LoadedConfig, name: str) -> Variant:
    """The variant of a recipe. Raises GearshiftError for a name that is no variant id."""
    variants = loaded.settings.variants()
    if name not in variants:
        raise GearshiftError(f"{name!r} is no variant id", hint="the names of a lock's recipes are MODEL:VARIANT")
    return variants[name]
