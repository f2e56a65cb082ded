"""`gearshift lock`: pin variants, hand them on as one file, or print the commands they stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from gearshift.advice.recipe import LOCK_FILE, Lock, Recipe, lock_text, read_lock
from gearshift.advice.recipe_commands import shell_command
from gearshift.advice.recipe_export import exported, pinned_revision
from gearshift.advice.recipe_making import Maker
from gearshift.advice.recipe_places import Places
from gearshift.advice.recipe_selection import selected, settings_of
from gearshift.advice.recipe_source import HubSource
from gearshift.artifacts import Hub, hub_cache_folder
from gearshift.cli.config_option import config_option
from gearshift.cli.recipe_file import ByteProgress
from gearshift.cli.session import Session, pass_session
from gearshift.cli.variant_name import VariantName
from gearshift.config import LoadedConfig, find_config, load_config
from gearshift.domain.engine import FlagMap
from gearshift.domain.errors import GearshiftError, UnknownModelError
from gearshift.domain.variant import EngineRef, Variant
from gearshift.engines import packaged_flags
from gearshift.hardware import open_memory
from gearshift.store.files import replace_file
from gearshift.toolchain import Toolchain

_PORT = 8000


class VariantSource(click.ParamType[tuple[str, HubSource]]):
    """``VARIANT=ORG/NAME[@REVISION]``."""

    name = "variant=org/name[@revision]"

    def convert(
        self, value: str | tuple[str, HubSource], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, HubSource]:
        if isinstance(value, tuple):
            return value
        variant, _, source = value.partition("=")
        try:
            return variant, HubSource.parse(source)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@dataclass(frozen=True, slots=True)
class LockSubject:
    """What is to be pinned: variants of a configuration, beside which a lock may stand already."""

    loaded: LoadedConfig
    variants: tuple[Variant, ...]
    lock_file: Path
    lock: Lock  # empty where there is none yet


@click.command("lock")
@click.argument("variants", nargs=-1, metavar="[VARIANT]...", type=VariantName())
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File to write; by default gearshift.lock beside the configuration.",
)
@config_option()
@click.option(
    "--source", "sources", multiple=True, type=VariantSource(), help="Where a variant's local files are from."
)
@click.option("--export", is_flag=True, help="One file that somebody else can pull and run; to stdout without -o.")
@click.option("--commands", is_flag=True, help="Print the engines' plain commands instead; nothing is hashed.")
@pass_session
def command(
    session: Session,
    variants: tuple[str, ...],
    output: Path | None,
    config: Path | None,
    sources: tuple[tuple[str, HubSource], ...],
    *,
    export: bool,
    commands: bool,
) -> None:
    """Pin variants: revisions, file hashes, engine versions and templates.

    Without VARIANT all of the configuration. What the lock says of other variants stays. With --export a locked
    variant is not hashed again.
    """
    if export and commands:
        raise click.UsageError("give --export or --commands, not both")
    subject = _subject(session, config, variants)
    if commands:
        _print_commands(session, subject)
    elif export:
        _export(session, subject, dict(sources), output)
    else:
        _write_lock(session, subject, dict(sources), output or subject.lock_file)


def _subject(session: Session, config: Path | None, names: Sequence[str]) -> LockSubject:
    file = config or find_config(Path.cwd(), session.env)
    if file is None:
        raise GearshiftError("there is no configuration here", hint="name it with --config")
    loaded = load_config(file, session.env)
    try:
        variants = selected(loaded.settings, names)
    except UnknownModelError as error:
        raise click.UsageError(f"{error.message} ({error.hint})") from error
    lock_file = file.absolute().parent / LOCK_FILE
    return LockSubject(loaded, variants, lock_file, read_lock(lock_file) if lock_file.exists() else Lock({}))


def _write_lock(session: Session, subject: LockSubject, sources: Mapping[str, HubSource], target: Path) -> None:
    made = _made(session, subject, subject.variants, sources)
    _replace(target, lock_text(subject.lock.with_recipes(made)))
    session.output.say(f"wrote {target}: {_counted(made)}")


def _export(session: Session, subject: LockSubject, sources: Mapping[str, HubSource], output: Path | None) -> None:
    """What is locked already is taken from the lock, unless its source is told anew."""
    locked = {
        variant.id: subject.lock.recipes[variant.id]
        for variant in subject.variants
        if variant.id in subject.lock.recipes and variant.id not in sources
    }
    fresh = [variant for variant in subject.variants if variant.id not in locked]
    made = locked | _made(session, subject, fresh, sources)
    _deliver(session, Lock({name: exported(recipe) for name, recipe in made.items()}), output)


def _made(
    session: Session, subject: LockSubject, variants: Sequence[Variant], sources: Mapping[str, HubSource]
) -> dict[str, Recipe]:
    """The recipes of these variants of the subject, made now, by variant id."""
    unused = sources.keys() - {variant.id for variant in variants}
    if unused:
        raise click.UsageError(f"--source names {min(unused)}, which is not locked now")
    with session.output.progress() as progress:
        maker = Maker(
            places=Places(subject.lock_file.parent, hub_cache_folder(session.env)),
            hub=Hub.of(session.env),
            find_engine=Toolchain(session.paths, session.env).find,
            sources=sources,
            earlier=subject.lock.recipes,
            told=ByteProgress(progress, "hashing"),
            unpinned=session.output.warn,
        )
        return {variant.id: maker.make(variant, settings_of(subject.loaded, variant)) for variant in variants}


def _print_commands(session: Session, subject: LockSubject) -> None:
    """By the flags of the installed engines, else by the packaged tables."""
    toolchain = Toolchain(session.paths, session.env)
    on_gpu = any(device.index is not None for device in open_memory(session.env).devices())
    shown = []
    for variant in subject.variants:
        recipe = subject.lock.recipes.get(variant.id)
        revision = pinned_revision(recipe) if recipe else None
        flags = _flags(toolchain, variant.engine)
        shown.append(shell_command(variant, flags, port=_PORT, on_gpu=on_gpu, revision=revision))
    session.output.write("\n\n".join(shown))


def _flags(toolchain: Toolchain, engine: EngineRef) -> FlagMap:
    """Of the installed engine; the packaged table for one that is not here, or does not tell."""
    try:
        found = toolchain.find(engine).flags
    except GearshiftError:
        found = None
    return found or packaged_flags(engine.kind, engine.version)


def _deliver(session: Session, lock: Lock, output: Path | None) -> None:
    for name, recipe in lock.recipes.items():
        if any(files.repository is None for files in recipe.files.values()):
            session.output.warn(f"nobody can pull {name}: say where its files are from (--source {name}=ORG/NAME)")
    if output is None:
        session.output.write(lock_text(lock), newline=False)
        return
    _replace(output, lock_text(lock))
    session.output.say(f"wrote {output}: {_counted(lock.recipes)}; others run it with gearshift pull --recipe")


def _counted(recipes: Mapping[str, Recipe]) -> str:
    return f"{len(recipes)} variant{'' if len(recipes) == 1 else 's'}"


def _replace(file: Path, text: str) -> None:
    """All of the new file or all of the old one. Raises GearshiftError."""
    try:
        replace_file(file, text)
    except OSError as error:
        raise GearshiftError(f"cannot write {file}: {error.strerror}") from error
