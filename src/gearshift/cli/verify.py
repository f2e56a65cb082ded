"""`gearshift verify`: is everything here what the lock names."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from gearshift.advice.recipe_places import load_recipes, recipe_variant
from gearshift.advice.recipe_verification import (
    Difference,
    differing_engines,
    differing_files,
    differing_templates,
    promised_files,
)
from gearshift.cli.exits import Exit
from gearshift.cli.recipe_file import RECIPE, ByteProgress, Chosen, chosen
from gearshift.cli.session import Session, pass_session
from gearshift.domain.units import format_bytes
from gearshift.toolchain import Toolchain


@click.command("verify")
@click.argument("variants", nargs=-1, metavar="[VARIANT]...")
@RECIPE
@click.option("--json", "as_json", is_flag=True, help="One JSON document: a list of differences.")
@pass_session
def command(session: Session, variants: tuple[str, ...], recipe: Path | None, *, as_json: bool) -> None:
    """Compare files, templates and engines with a lock, byte by byte.

    Exit status 1 if anything differs, with what was expected and what was found.
    """
    locked = chosen(session, recipe, variants)
    total = sum(promise.bytes for _, promise in promised_files(locked.recipes, locked.places).values())
    with session.output.progress() as progress:
        told = ByteProgress(progress, "hashing", total)
        found = [
            *differing_files(locked.recipes, locked.places, told),
            *differing_templates(locked.recipes, locked.places),
            *_engines(session, locked),
        ]
    rows = [dataclasses.asdict(difference) for difference in found]
    session.output.emit(rows, as_json=as_json, human=lambda: "\n".join(map(_told, found)))
    if found:
        raise click.exceptions.Exit(Exit.FAILED)
    session.output.say(f"{locked.file}: everything is as locked ({format_bytes(total)})")


def _engines(session: Session, locked: Chosen) -> list[Difference]:
    loaded = load_recipes(locked.recipes, locked.file, session.env)
    engines = {name: recipe_variant(loaded, name).engine for name in locked.recipes}
    return list(differing_engines(engines, locked.recipes, Toolchain(session.paths, session.env).find))


def _told(difference: Difference) -> str:
    return f"{difference.variant}  {difference.place}\n  {difference.what}"
