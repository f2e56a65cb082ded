"""`gearshift pull`: fetch exactly what a lock names."""

from __future__ import annotations

from pathlib import Path

import click

from gearshift.advice.recipe import LOCK_FILE
from gearshift.advice.recipe_places import recipe_config
from gearshift.advice.recipe_pulling import (
    Wanted,
    check_room,
    fetch_file,
    name_main_branch,
    refuse_outside,
    restore_template,
    wanted_files,
)
from gearshift.artifacts import Hub
from gearshift.cli.recipe_file import RECIPE, ByteProgress, Chosen, chosen
from gearshift.cli.session import Session, pass_session
from gearshift.config.find import FILE_NAME
from gearshift.domain.units import format_bytes


@click.command("pull")
@click.argument("variants", nargs=-1, metavar="[VARIANT]...")
@RECIPE
@click.option("--outside", is_flag=True, help="Also write to places outside the lock's own folder.")
@pass_session
def command(session: Session, variants: tuple[str, ...], recipe: Path | None, *, outside: bool) -> None:
    """Fetch exactly the files a lock names, and compare each with it.

    A transfer that broke off goes on where it ended. Files that are here are compared and kept; one that is another is
    never replaced. For a recipe from elsewhere a gearshift.yaml is written beside it, if there is none.
    """
    locked = chosen(session, recipe, variants)
    if not outside:
        refuse_outside(locked.recipes, locked.places)
    with session.output.progress() as progress:
        wanted = wanted_files(locked.recipes, locked.places, ByteProgress(progress, "comparing"))
        check_room(wanted)
        told = ByteProgress(progress, "fetching", sum(item.file.bytes for item in wanted))
        for item in wanted:
            fetch_file(item, Hub.of(session.env), told)
        name_main_branch(locked.recipes, locked.places)
        written = [restore_template(own, locked.places) for own in locked.recipes.values()]
    for file in (*written, _configured(locked)):
        if file is not None:
            session.output.say(f"wrote {file}")
    session.output.say(_summary(locked, wanted))


def _configured(locked: Chosen) -> Path | None:
    """A configuration for a recipe that came without one: the lock beside a configuration is that one's."""
    file = locked.places.root / FILE_NAME
    if locked.file.name == LOCK_FILE or file.exists():
        return None
    file.write_text(f"# Made from {locked.file.name}.\n{recipe_config(locked.recipes)}")
    return file


def _summary(locked: Chosen, wanted: tuple[Wanted, ...]) -> str:
    files = sum(len(files.files) for recipe in locked.recipes.values() for files in recipe.files.values())
    fetched = format_bytes(sum(item.file.bytes for item in wanted))
    return f"fetched {len(wanted)} of {files} files, {fetched}; all are as locked"
