"""What a lock pins of a variant, beside what is on disk now: sizes only, hashes are verify's business. Impure."""

from __future__ import annotations

from pathlib import Path

from gearshift.advice.doctor.case import Pins
from gearshift.advice.recipe import Recipe
from gearshift.advice.recipe_places import Places


def gather_pins(recipe: Recipe, places: Places) -> Pins:
    """The recipe's pins, with the size of every file that is there."""
    located = [(file, places.file(files, file)) for files in recipe.files.values() for file in files.files]
    return Pins(
        engine_version=recipe.engine.version,
        engine_digest=recipe.engine.digest,
        template_sha256=recipe.template.sha256 if recipe.template else None,
        sizes={file.name: file.bytes for file, _ in located},
        found={file.name: _size(path) for file, path in located},
    )


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None
