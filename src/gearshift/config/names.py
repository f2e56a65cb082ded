"""The names of a file: which there are, that each means one thing, that each reference finds its target."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gearshift.config.document import Document
from gearshift.config.keypath import KeyPath
from gearshift.config.layers import VariantId, all_variants
from gearshift.config.schema import FileSection
from gearshift.domain.errors import Problem
from gearshift.domain.spelling import near

_MODEL_NAME = re.compile(r"[^\s\x00-\x1f\x7f]([^\x00-\x1f\x7f]{0,200}[^\s\x00-\x1f\x7f])?")
_VARIANT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


@dataclass(frozen=True, slots=True)
class DeclaredNames:
    """Every model and variant that the file names, whether or not its section is sound."""

    variants: tuple[VariantId, ...]
    models: tuple[str, ...]

    @classmethod
    def of(cls, document: Document) -> DeclaredNames:
        """Read from the document, so that one fault does not make a second of each reference to it."""
        models = document.get(("models",))
        models = models if isinstance(models, dict) else {}
        return cls(tuple(all_variants(models)), tuple(models))

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(map(str, self.variants))

    def members(self, name: str) -> tuple[str, ...]:
        """The variant ids that a name stands for: one variant, or all of a model's; none if it is unknown."""
        if name in self.ids:
            return (name,)
        return tuple(str(variant) for variant in self.variants if variant.model == name)

    def unknown(self, name: str, document: Document, at: KeyPath) -> Iterator[Problem]:
        """A problem when a name stands for nothing."""
        if name not in self.models and not self.members(name):
            hint = near(name, (*self.ids, *self.models))
            yield document.problem(at, f"there is no variant or model {name!r}", hint=hint)


def check_names(file: FileSection, document: Document) -> Iterator[Problem]:
    """Every name that is unusable, means two things, or refers to nothing."""
    names = DeclaredNames.of(document)
    yield from _well_formed(names, document)
    yield from _meanings(file, names, document)
    yield from _routes(file, document)
    yield from _groups(file, names, document)
    yield from _preload(file, names, document)
    yield from _side(file, names, document)


def _well_formed(names: DeclaredNames, document: Document) -> Iterator[Problem]:
    for model in names.models:
        if not _MODEL_NAME.fullmatch(model):
            hint = "no control characters, no blanks at its ends, at most 200 characters"
            yield document.problem(("models", model), f"{model!r} cannot be a model's name", hint=hint)
    for variant in names.variants:
        if not _VARIANT_NAME.fullmatch(variant.name):
            hint = "letters, digits and . _ + - after the first"
            yield document.problem(variant.path, f"{variant.name!r} cannot be a variant's name", hint=hint)


def _meanings(file: FileSection, names: DeclaredNames, document: Document) -> Iterator[Problem]:
    taken: dict[str, KeyPath] = {str(variant): variant.path for variant in names.variants}
    for model in names.models:
        yield from _take(taken, model, ("models", model), document)
    for model, section in file.models.items():
        for position, alias in enumerate(section.aliases):
            yield from _take(taken, alias, ("models", model, "aliases", position), document)


def _take(taken: dict[str, KeyPath], name: str, at: KeyPath, document: Document) -> Iterator[Problem]:
    if name in taken:
        hint = f"it already names something in line {document.line_of(taken[name])}"
        yield document.problem(at, f"{name!r} means two things", hint=hint)
    taken.setdefault(name, at)


def _routes(file: FileSection, document: Document) -> Iterator[Problem]:
    for model, section in file.models.items():
        known = document.get(("models", model, "variants"))
        known = known if isinstance(known, dict) else {}
        if section.route != "auto" and section.route not in known:
            hint = near(section.route, known) or f"auto, {', '.join(known)}"
            yield document.problem(("models", model, "route"), f"there is no variant {section.route!r}", hint=hint)


def _groups(file: FileSection, names: DeclaredNames, document: Document) -> Iterator[Problem]:
    homes: dict[str, str] = {}
    for group, section in file.groups.items():
        for position, name in enumerate(section.members):
            at = ("groups", group, "members", position)
            yield from names.unknown(name, document, at)
            for member in names.members(name):
                if member in homes:
                    yield document.problem(at, f"{member} is in group {homes[member]!r} already")
                homes.setdefault(member, group)


def _preload(file: FileSection, names: DeclaredNames, document: Document) -> Iterator[Problem]:
    for position, name in enumerate(file.preload):
        yield from names.unknown(name, document, ("preload", position))
    for group, section in file.groups.items():
        members = {member for name in section.members for member in names.members(name)}
        wanted = [name for name in file.preload if members & set(names.members(name))]
        if section.swap and len(wanted) > 1:
            message = f"{' and '.join(wanted)} cannot both stay: group {group!r} keeps one resident"
            yield document.problem(("preload",), message, severity="warning")


def _side(file: FileSection, names: DeclaredNames, document: Document) -> Iterator[Problem]:
    aliases = {alias for section in file.models.values() for alias in section.aliases}
    for position, name in enumerate(file.side.aliases):
        if name not in aliases and name not in names.models and name not in names.ids:
            hint = near(name, sorted(aliases | set(names.models))) or "name it among a model's aliases: first"
            yield document.problem(("side", "aliases", position), f"no model is called {name!r}", hint=hint)
