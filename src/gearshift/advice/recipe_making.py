"""Pinning a variant: files hashed, source and engine named, template kept. Impure: reads disks, asks a hub."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from gearshift.advice.recipe import PinnedEngine, PinnedFile, PinnedFiles, PinnedTemplate, Recipe
from gearshift.advice.recipe_places import Places
from gearshift.advice.recipe_settings import kept_settings, relative_to
from gearshift.advice.recipe_source import HubSource, with_source
from gearshift.artifacts import (
    PARTIAL,
    Hub,
    Template,
    cached_snapshot,
    gguf_parts,
    make_patch,
    model_template,
    read_template,
    sha256_of,
)
from gearshift.domain.engine import EngineInstall
from gearshift.domain.errors import GearshiftError
from gearshift.domain.variant import EngineRef, Variant

Told = Callable[[str, int], None]  # a file's name, bytes of it hashed since the last call

_SERVED = {".safetensors", ".json", ".jinja", ".txt", ".model", ".tiktoken", ".py"}  # what vLLM reads of a repository


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes recipes. ``sources`` say where local files are from, ``earlier`` what an older lock knew, by variant id."""

    places: Places
    hub: Hub
    find_engine: Callable[[EngineRef], EngineInstall]
    sources: Mapping[str, HubSource]
    earlier: Mapping[str, Recipe]
    told: Told = lambda _name, _count: None
    unpinned: Callable[[str], None] = lambda _what: None  # told of each thing that could not be pinned

    def make(self, variant: Variant, settings: Mapping[str, Any]) -> Recipe:
        """The recipe of a variant, whose keys in the configuration are ``settings``. Raises GearshiftError."""
        files = {role: self._pinned(variant, role, named) for role, named in _named(variant)}
        return Recipe(
            settings=kept_settings(settings, self.places.root),
            engine=self._engine(variant),
            files=files,
            template=self._template(variant, files.get("weights")),
        )

    def _pinned(self, variant: Variant, role: str, named: str) -> PinnedFiles:
        if named.startswith("/"):
            pinned = self._local(Path(named))
            return with_source(pinned, self._source(variant, role, pinned), self.hub)
        if variant.engine.kind == "llama.cpp":
            raise GearshiftError(
                f"{variant.id}: {role} {named} are fetched by llama.cpp itself, so nothing of them can be pinned",
                hint="fetch the GGUF file and name its path in weights",
            )
        revision = variant.args.get("revision")
        return self._of_hub(named, str(revision) if revision else "main")

    def _source(self, variant: Variant, role: str, pinned: PinnedFiles) -> HubSource | None:
        """Where weights are from: as told now, else as an older lock knew of the same folder."""
        if role == "weights" and variant.id in self.sources:
            return self.sources[variant.id]
        recipe = self.earlier.get(variant.id)
        known = recipe.files.get(role) if recipe else None
        if known and known.repository and known.folder == pinned.folder:
            return HubSource(known.repository, known.revision)
        return None

    def _local(self, path: Path) -> PinnedFiles:
        """A folder with everything in it, or a GGUF file with all its parts."""
        folder = path if path.is_dir() else path.parent
        present = _files_below(path) if path.is_dir() else list(gguf_parts(path))
        return PinnedFiles(
            tuple(self._hashed(file, file.relative_to(folder).as_posix()) for file in present),
            folder=relative_to(self.places.root, folder),
        )

    def _of_hub(self, repository: str, revision: str) -> PinnedFiles:
        """A snapshot that is here is hashed; else the hub is asked what the revision holds."""
        snapshot = cached_snapshot(self.places.hub_cache, repository, revision)
        if snapshot is not None:
            present = (file for file in _files_below(snapshot) if _is_served(file.relative_to(snapshot).as_posix()))
            files = tuple(self._hashed(file, file.relative_to(snapshot).as_posix()) for file in present)
            return PinnedFiles(files, repository=repository, revision=snapshot.name)
        at = self.hub.revision(repository, revision)
        served = [file for file in at.files if _is_served(file.path)]
        promised = [(file, self.hub.promise(at, file)) for file in served]
        files = tuple(PinnedFile(file.path, promise.bytes, promise.sha256) for file, promise in promised)
        return PinnedFiles(files, repository=repository, revision=at.commit)

    def _hashed(self, path: Path, name: str) -> PinnedFile:
        promise = sha256_of(path, partial(self.told, path.name))
        return PinnedFile(name, promise.bytes, promise.sha256)

    def _engine(self, variant: Variant) -> PinnedEngine:
        """The installed one; where there is none, the version that the configuration asks for."""
        ref = variant.engine
        try:
            install = self.find_engine(ref)
        except GearshiftError as error:
            what = f"pinned as the configuration names it, {ref.version}" if ref.version else "not pinned"
            self.unpinned(f"{variant.id}: the engine is {what}: {error.message}")
            return PinnedEngine(ref.kind, ref.version)
        return PinnedEngine(ref.kind, install.version, install.digest)

    def _template(self, variant: Variant, weights: PinnedFiles | None) -> PinnedTemplate | None:
        folder = self.places.folder(weights) if weights else None
        base = _brought(folder, weights) if folder and weights else None
        if variant.template is None:
            return PinnedTemplate(base.sha256) if base else None
        own = read_template(variant.template)
        return _kept(own, base, relative_to(self.places.root, variant.template))


def _named(variant: Variant) -> Iterator[tuple[str, str]]:
    """What a variant reads: paths and hub ids, by role."""
    if variant.engine.kind == "command":
        return
    if variant.weights:
        yield "weights", variant.weights
    if variant.speculation and variant.speculation.draft:
        yield "draft", variant.speculation.draft
    if isinstance(projector := variant.args.get("mmproj"), str):
        yield "mmproj", str(Path(projector).absolute())


def _files_below(folder: Path) -> list[Path]:
    """Every file, in name order; what tools keep in hidden folders and unfinished transfers left out."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file()
        and path.suffix != PARTIAL
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )


def _is_served(path: str) -> bool:
    return Path(path).suffix in _SERVED and not path.startswith("original/")


def _brought(folder: Path, weights: PinnedFiles) -> Template | None:
    """The template that the model itself brings, where its files are here."""
    names = [file.name for file in weights.files if file.name.endswith(".gguf")]
    place = folder / names[0] if names else folder
    return model_template(place) if place.exists() else None


def _kept(own: Template, base: Template | None, file: str) -> PinnedTemplate:
    """As a patch over the model's template where that is shorter than the whole text."""
    patch = make_patch(base.text, own.text) if base else None
    if base is None or patch is None or len(patch) >= len(own.text):
        return PinnedTemplate(own.sha256, file, text=tuple(own.text.split("\n")))
    return PinnedTemplate(own.sha256, file, base_sha256=base.sha256, patch=tuple(patch.split("\n")))
