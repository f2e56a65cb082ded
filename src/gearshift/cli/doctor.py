"""`gearshift doctor`: what is wrong or risky here, why, and what to do about it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from gearshift.advice.doctor import Finding
from gearshift.advice.doctor.consultation import Consultation, consult
from gearshift.advice.doctor.finding import SEVERITIES
from gearshift.advice.doctor.gather_box import gather_box
from gearshift.advice.recipe import LOCK_FILE, Lock, read_lock
from gearshift.advice.recipe_places import Places, load_recipes
from gearshift.advice.recipe_selection import selected
from gearshift.artifacts import hub_cache_folder
from gearshift.cli.config_option import config_option
from gearshift.cli.exits import Exit
from gearshift.cli.session import Session, pass_session
from gearshift.cli.variant_name import VariantName
from gearshift.config import find_config, load_config
from gearshift.domain.errors import GearshiftError, UnknownModelError
from gearshift.hardware import open_memory
from gearshift.toolchain import Toolchain

_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}


@click.command("doctor")
@click.argument("variant", required=False, type=VariantName())
@click.option("--recipe", type=click.Path(path_type=Path, dir_okay=False), help="Examine a lock or an exported recipe.")
@config_option()
@click.option("--json", "as_json", is_flag=True, help="One JSON document: a list of findings.")
@pass_session
def command(session: Session, variant: str | None, recipe: Path | None, config: Path | None, *, as_json: bool) -> None:
    """Find what is wrong or risky, and say what to do about it.

    Looks at the box, the engines, the models' files and the configuration, of one VARIANT (or of a model's all) or of
    every one; nothing is started. Exit status 1 if there is an error among the findings.
    """
    if variant and recipe:
        raise click.UsageError("give a VARIANT or --recipe, not both")
    visit = _of_recipe(session, recipe) if recipe else _of_config(session, config, variant)
    with session.output.progress() as progress:
        progress("looking at this box")
        memory = open_memory(session.env, budget_bytes=visit.loaded.settings.memory_bytes if visit.loaded else None)
        box = gather_box(memory, session.env)
        progress("looking at engines and models")
        findings = consult(visit, box, Toolchain(session.paths, session.env).find)
    rows = [dataclasses.asdict(finding) for finding in findings]
    session.output.emit(rows, as_json=as_json, human=lambda: "\n\n".join(map(_told, findings)))
    session.output.say(_summary(findings, len(visit.variants)))
    if any(finding.severity == "error" for finding in findings):
        raise click.exceptions.Exit(Exit.FAILED)


def _of_config(session: Session, config: Path | None, variant: str | None) -> Consultation:
    """The variants of the configuration; just the box where there is none. Raises ConfigError."""
    hub_cache = hub_cache_folder(session.env)
    file = config or find_config(Path.cwd(), session.env)
    if file is None:
        if variant:
            raise click.UsageError(f"there is no configuration that could have {variant}")
        return Consultation((), None, places=Places(Path.cwd(), hub_cache))
    loaded = load_config(file, session.env)
    lock = file.absolute().parent / LOCK_FILE
    pins = _lock(lock) if lock.exists() else Lock({})
    try:
        variants = selected(loaded.settings, [variant] if variant else ())
    except UnknownModelError as error:
        raise click.UsageError(f"{error.message} ({error.hint})") from error
    return Consultation(variants, loaded, pins.recipes, Places(lock.parent, hub_cache), file)


def _of_recipe(session: Session, file: Path) -> Consultation:
    """The variants of a lock as if they were configured beside it. Raises UsageError, and ConfigError."""
    recipes = _lock(file).recipes
    loaded = load_recipes(recipes, file, session.env)
    places = Places(file.absolute().parent, hub_cache_folder(session.env))
    return Consultation(selected(loaded.settings, ()), dataclasses.replace(loaded, places={}), recipes, places, file)


def _lock(file: Path) -> Lock:
    """The lock, or a UsageError: exit status 1 would say that something was examined."""
    try:
        return read_lock(file)
    except GearshiftError as error:
        raise click.UsageError(f"{error.message} ({error.hint})") from error


def _told(finding: Finding) -> str:
    label = click.style(finding.severity, fg=_COLOURS[finding.severity], bold=finding.severity == "error")
    places = [_from_here(place) for place in finding.place.split("; ")]
    named = places[0] if len(places) == 1 else f"in {len(places)} places"
    listed = [f"  at: {place}" for place in places] if len(places) > 1 else []
    return "\n".join([f"{label}  {finding.id}  {named}", *_lines(finding), *listed])


def _from_here(place: str) -> str:
    """A place in a file below the current folder without the folder's name."""
    return place.removeprefix(f"{Path.cwd()}/")


def _lines(finding: Finding) -> Iterator[str]:
    yield f"  {finding.what}"
    yield f"  why: {finding.why}"
    yield f"  fix: {finding.fix}"
    if finding.link:
        yield f"  see: {finding.link}"


def _summary(findings: Sequence[Finding], variants: int) -> str:
    """``1 error, 2 notes about 4 variants and this box``."""
    counts = {severity: sum(finding.severity == severity for finding in findings) for severity in SEVERITIES}
    told = ", ".join(f"{count} {severity}{'' if count == 1 else 's'}" for severity, count in counts.items() if count)
    about = f"{variants} variant{'' if variants == 1 else 's'} and this box" if variants else "this box"
    return f"{told or 'nothing to say'} about {about}"
