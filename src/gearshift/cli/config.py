"""`gearshift config`: judge, show, describe and carry over configurations."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from gearshift.advice.check import check_config
from gearshift.advice.importers import import_ini_presets, import_llama_swap
from gearshift.cli.config_engines import engine_comments, engine_values, find_engines
from gearshift.cli.exits import Exit
from gearshift.cli.session import Session, pass_session
from gearshift.config import LoadedConfig, find_config, json_schema, load_config, show
from gearshift.domain.errors import ConfigError, GearshiftError, Problem
from gearshift.hardware import open_memory
from gearshift.toolchain import Toolchain

IMPORTERS = {"llama-swap": import_llama_swap, "llama.cpp": import_ini_presets}
FILE = click.argument("file", type=click.Path(path_type=Path), required=False)


@click.group("config")
def command() -> None:
    """Check, show, describe and import configurations."""


def _meant(session: Session, file: Path | None) -> Path:
    """The file named, or the one that `serve` would take. Raises GearshiftError."""
    named = file or (Path(session.env["GEARSHIFT_CONFIG"]) if session.env.get("GEARSHIFT_CONFIG") else None)
    found = named or find_config(Path.cwd(), session.env)
    if found is None:
        msg = "there is no configuration here"
        raise GearshiftError(msg, hint="name a file, or write a first one: gearshift config init -o gearshift.yaml")
    return found


@command.command("check")
@FILE
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document: a list of problems.")
@pass_session
def check(session: Session, file: Path | None, *, strict: bool, as_json: bool) -> None:
    """Find every problem of a configuration at once.

    Flags are held against the installed engine where there is one, else against the packaged tables. Exit status 2 if
    there is an error.
    """
    checked(session, _meant(session, file), strict=strict, as_json=as_json)


def checked(session: Session, file: Path, *, strict: bool, as_json: bool = False) -> None:
    """Print every problem; errors end with exit status 2."""
    problems, variants = _problems(session, file, strict=strict)
    errors = [problem for problem in problems if problem.severity == "error"]
    if as_json:
        session.output.document(
            [dataclasses.asdict(problem) | {"file": str(problem.file or file)} for problem in problems]
        )
    else:
        for problem in problems:
            if problem.severity != "error":
                session.output.warn(str(problem))
    if errors and not as_json:
        raise ConfigError(tuple(errors))
    if errors:
        raise click.exceptions.Exit(Exit.USAGE)
    session.output.say(f"{file}: {variants} variant{'' if variants == 1 else 's'}, no errors")


def _problems(session: Session, file: Path, *, strict: bool) -> tuple[Sequence[Problem], int]:
    """Problems in the order of the file, and how many variants it has."""
    try:
        loaded = load_config(file, session.env)
    except ConfigError as error:
        return error.problems, 0
    toolchain = Toolchain(session.paths, session.env)
    devices = open_memory(session.env).devices()
    problems = check_config(loaded, find_engine=toolchain.find, strict=strict, devices=devices)
    return problems, len(loaded.settings.variants())


@command.command("show")
@FILE
@click.option("--json", "as_json", is_flag=True, help="One JSON document: a list of values with path and origin.")
@pass_session
def show_(session: Session, file: Path | None, *, as_json: bool) -> None:
    """Print the resolved configuration and where each value came from.

    It ends with the engine that would be chosen for each variant on this box now, or why there is none.
    """
    loaded = load_config(_meant(session, file), session.env)
    variants = loaded.settings.variants()
    found = find_engines(variants, Toolchain(session.paths, session.env).find)
    session.output.emit(
        [*_values(loaded), *engine_values(variants, found)],
        as_json=as_json,
        human=lambda: "\n".join([show(loaded).rstrip("\n"), *engine_comments(found)]),
    )


def _values(loaded: LoadedConfig) -> Iterator[dict[str, Any]]:
    for path, origin in loaded.origins.items():
        yield {"path": path, "value": origin.value, "origin": str(origin)}


@command.command("schema")
@pass_session
def schema(session: Session) -> None:
    """Print the JSON schema of gearshift.yaml, for editors."""
    session.output.document(json_schema())


@command.command("import")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--from",
    "source",
    type=click.Choice(list(IMPORTERS)),
    help="Format of the file; by default recognised by its name.",
)
@click.option("--output", "-o", type=click.Path(path_type=Path), help="Write to this file, which must not exist.")
@pass_session
def import_(session: Session, file: Path, source: str | None, output: Path | None) -> None:
    """Carry a llama-swap file (YAML) or llama-server presets (INI) over.

    What could not be carried over as it was is said on stderr and at the head of the result.
    """
    importer = IMPORTERS[source or ("llama.cpp" if file.suffix.lower() == ".ini" else "llama-swap")]
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{file} cannot be read: {error}"
        raise GearshiftError(msg) from error
    result = importer(text, file=file)
    for note in result.notes:
        session.output.warn(note)
    _deliver(session, result.text, output)


@command.command("init")
@click.option("--output", "-o", type=click.Path(path_type=Path), help="Write to this file, which must not exist.")
@pass_session
def init(session: Session, output: Path | None) -> None:
    """Print a first configuration made from the engines and GGUF files found here."""
    from gearshift.cli.starter import starter_text  # noqa: PLC0415 - looks for engines and weights, which the other verbs need not

    _deliver(session, starter_text(session), output)


def _deliver(session: Session, text: str, output: Path | None) -> None:
    """To stdout, or to a new file. Raises GearshiftError rather than replace one."""
    if output is None:
        session.output.write(text, newline=False)
        return
    try:
        with output.open("x") as file:
            file.write(text)
    except OSError as error:
        msg = f"cannot write {output}: {error.strerror}"
        raise GearshiftError(msg) from error
    session.output.say(f"wrote {output}")
