"""File to settings. One pass finds every problem: shape, then names and access, then each variant over its layers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from gearshift.config.assembly import Assembly
from gearshift.config.document import Document, decode, read_document
from gearshift.config.files import Base
from gearshift.config.keypath import dotted
from gearshift.config.listen import KeyReader, check_access, listen_address
from gearshift.config.loaded import LoadedConfig
from gearshift.config.names import DeclaredNames, check_names
from gearshift.config.schema import FileSection
from gearshift.config.shape import check_shape, without_nulls
from gearshift.config.substitution import Substitution
from gearshift.config.variant import Installations, installations
from gearshift.domain.errors import ConfigError, Problem
from gearshift.domain.settings import ApiKey, Group, Model, Settings, SideRule


def load_config(path: Path, env: Mapping[str, str]) -> LoadedConfig:
    """Read a configuration file. Raises ConfigError with every problem in it, or with why it cannot be read."""
    try:
        raw = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError((Problem(f"cannot be read: {reason}", dotted(()), file=path),)) from None
    return parse_config(decode(raw, path), file=path, env=env)


def parse_config(text: str, *, file: Path | None, env: Mapping[str, str]) -> LoadedConfig:
    """Read a configuration from its text; ``file`` is where relative paths start and what problems name.

    Raises ConfigError with every problem, errors and warnings; warnings alone come with the result.
    """
    document = read_document(text, file)
    substitution = Substitution(env, document)
    whole = substitution.apply()
    sound, misfits = check_shape(document, whole)
    section = FileSection.model_validate(without_nulls(sound))
    base = Base.of(file, env)
    engines = installations(section.engines, base)
    assembly = Assembly(document, whole, sound, base, engines)
    models = assembly.models(section)
    keys, key_problems = _keys(section, KeyReader(document, base, env))
    problems = _in_order(
        document.problems,
        substitution.problems,
        misfits,
        check_names(section, document),
        check_access(section, document),
        key_problems,
        assembly.problems,
    )
    if any(problem.severity == "error" for problem in problems):
        raise ConfigError(problems)
    settings = _settings(section, models, keys, engines, DeclaredNames.of(document))
    return LoadedConfig(settings, problems, assembly.leaves, _lines(document, assembly), file)


def _in_order(*found: Iterable[Problem]) -> tuple[Problem, ...]:
    """Each problem once, in the order of the file: variants that share a faulty base report it together."""
    once = dict.fromkeys(problem for problems in found for problem in problems)
    return tuple(sorted(once, key=lambda problem: problem.line or 0))


def _lines(document: Document, assembly: Assembly) -> dict[str, int]:
    """Lines of what is written, and of what a variant inherits: there the line of the giver."""
    inherited = {dotted(path): origin.line for path, origin in assembly.leaves.items() if origin.line is not None}
    return inherited | {dotted(path): line for path, line in document.lines.items()}


def _keys(section: FileSection, reader: KeyReader) -> tuple[tuple[ApiKey, ...], list[Problem]]:
    read = [reader.read(key, position) for position, key in enumerate(section.api_keys)]
    return tuple(key for key, _ in read), [problem for _, problems in read for problem in problems]


def _settings(
    section: FileSection,
    models: Mapping[str, Model],
    keys: tuple[ApiKey, ...],
    engines: Installations,
    names: DeclaredNames,
) -> Settings:
    host, port = listen_address(section.listen)
    return Settings(
        host=host,
        port=port,
        api_keys=keys,
        allow_open=section.allow_open,
        cors_origins=tuple(section.cors_origins),
        allowed_hosts=tuple(section.allowed_hosts),
        body_limit_bytes=section.body_limit,
        models=models,
        groups=tuple(_groups(section, names)),
        preload=tuple(_preload(section, names)),
        side=_side(section),
        engines=engines,
        memory_bytes=section.memory,
        keepalive_s=section.keepalive,
    )


def _groups(section: FileSection, names: DeclaredNames) -> Iterator[Group]:
    for name, group in section.groups.items():
        members = tuple(member for entry in group.members for member in names.members(entry))
        yield Group(name, members, group.swap, group.exclusive, group.persistent)


def _preload(section: FileSection, names: DeclaredNames) -> Iterator[str]:
    """Variant ids: a model stands for its route, and with `auto` for its first variant."""
    for entry in section.preload:
        model = section.models.get(entry)
        routed = model is not None and entry not in names.ids and model.route != "auto"
        yield f"{entry}:{model.route}" if model is not None and routed else names.members(entry)[0]


def _side(section: FileSection) -> SideRule:
    headers = {name.lower(): value for name, value in section.side.headers.items()}
    return SideRule(headers, frozenset(section.side.aliases))
