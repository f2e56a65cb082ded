"""Which lock is meant, which of its recipes, and telling how far hashing and fetching are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click

from gearshift.advice.recipe import LOCK_FILE, Recipe, read_lock
from gearshift.advice.recipe_places import Places
from gearshift.artifacts import hub_cache_folder
from gearshift.cli.progress import Progress
from gearshift.cli.session import Session
from gearshift.config import find_config
from gearshift.domain.units import format_bytes

RECIPE = click.option(
    "--recipe",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="A lock or an exported recipe; by default gearshift.lock beside the configuration.",
)


@dataclass(frozen=True, slots=True)
class Chosen:
    """Recipes of a lock, by variant id, and where their files lie."""

    file: Path
    recipes: Mapping[str, Recipe]
    places: Places


def chosen(session: Session, recipe: Path | None, variants: Sequence[str]) -> Chosen:
    """The recipes meant: those named, by id or model, else all of the lock. Raises GearshiftError, UsageError."""
    file = recipe or beside_config(session)
    named = [name for name in variants if Path(name).is_file()]
    recipes = read_lock(file).recipes if file.is_file() or not named else {}
    unknown = [name for name in variants if not any(_means(name, known) for known in recipes)]
    if named and named[0] in unknown:
        raise click.UsageError(f"{named[0]} is a file and no variant: write --recipe {named[0]}")
    if unknown:
        raise click.UsageError(f"{file} has no recipe for {unknown[0]} (it has {', '.join(recipes) or 'none'})")
    meant = {known: own for known, own in recipes.items() if not variants or any(_means(n, known) for n in variants)}
    return Chosen(file, meant, Places(file.absolute().parent, hub_cache_folder(session.env)))


def beside_config(session: Session) -> Path:
    """The lock that belongs to the configuration that `serve` would take, or to this folder."""
    named = session.env.get("GEARSHIFT_CONFIG")
    found = Path(named) if named else find_config(Path.cwd(), session.env)
    return found.with_name(LOCK_FILE) if found else Path(LOCK_FILE)


def _means(name: str, variant: str) -> bool:
    return name in {variant, variant.partition(":")[0]}


@dataclass
class ByteProgress:
    """Bytes of ``total_bytes`` done so far, shown under what is being done; 0 = nobody knows how many there are."""

    progress: Progress
    doing: str
    total_bytes: int = 0
    done_bytes: int = field(default=0, init=False)

    def __call__(self, name: str, count: int) -> None:
        """``count`` more bytes of the file ``name``."""
        self.done_bytes += count
        known = self.total_bytes > 0
        self.progress(
            f"{self.doing} {name}" + (f" ({format_bytes(self.total_bytes)} in all)" if known else ""),
            min(1.0, self.done_bytes / self.total_bytes) if known else None,
        )
