"""Lays a variant over what it extends, over its model, over `defaults:`, and remembers who gave each value.

Mappings merge key by key, everything else replaces. A null takes away what lies below, so that the value is unset
again; for the waits that can be switched off it means off.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from gearshift.config.document import Document
from gearshift.config.keypath import KeyPath
from gearshift.config.loaded import OriginKind
from gearshift.domain.errors import Problem
from gearshift.domain.spelling import near

Tree = Mapping[str, object]


class VariantId(NamedTuple):
    """A variant by its model and its own name."""

    model: str
    name: str

    def __str__(self) -> str:
        return f"{self.model}:{self.name}"

    @property
    def path(self) -> KeyPath:
        """Where its section stands in the file."""
        return ("models", self.model, "variants", self.name)


_NULL_IS_OFF: frozenset[KeyPath] = frozenset(
    {("stall_timeout",), ("drain_timeout",), ("probe_every",), ("idle", "unload_after")}
)
_OF_MODEL = ("sampling", "filters")


@dataclass(frozen=True, slots=True)
class Layer:
    """One tree in a variant's shape and where in the document it stands."""

    tree: Tree
    at: KeyPath
    kind: OriginKind
    inherited_from: str | None = None  # the variant that it belongs to, for kind "extends"


@dataclass(slots=True)
class Merged:
    """The layers as one tree; ``sources`` gives each leaf's layer. ``idle_nulls`` took nothing away."""

    tree: dict[str, object] = field(default_factory=dict)
    sources: dict[KeyPath, Layer] = field(default_factory=dict)
    idle_nulls: list[KeyPath] = field(default_factory=list)

    def place(self, path: KeyPath) -> KeyPath | None:
        """The absolute place of a leaf, or of the first leaf under it; None where no layer sets it."""
        for leaf, layer in self.sources.items():
            if leaf[: len(path)] == path:
                return (*layer.at, *path)
        return None


def merge(layers: Sequence[Layer]) -> Merged:
    """Later layers win."""
    merged = Merged()
    for layer in layers:
        _overlay(merged, merged.tree, layer.tree, (), layer)
    return merged


def layers_of(variant: VariantId, models: Tree, defaults: Tree, chain: Sequence[VariantId]) -> list[Layer]:
    """A variant's layers, lowest first; ``chain`` is what it extends, nearest first."""
    of_model = {key: value for key, value in mapping_at(models, variant.model).items() if key in _OF_MODEL}
    return [
        Layer(defaults, ("defaults",), "defaults"),
        Layer(of_model, ("models", variant.model), "model"),
        *(_variant_layer(base, models, variant) for base in reversed(chain)),
        _variant_layer(variant, models, variant),
    ]


def extends_chain(variant: VariantId, models: Tree, document: Document) -> list[VariantId] | Problem:
    """What a variant extends, nearest first, or why that cannot be told. ``models`` are those of the whole file."""
    chain: list[VariantId] = []
    current = variant
    while isinstance(base := variant_tree(models, current).get("extends"), str):
        at = (*current.path, "extends")
        found = find_variant(base, current.model, models)
        if found is None:
            known = [*map(str, all_variants(models)), *_variants(models, current.model)]
            return document.problem(at, f"there is no variant {base!r}", hint=near(base, known))
        if found == variant or found in chain:
            names = " -> ".join(map(str, (variant, *chain, found)))
            return document.problem(at, f"extends goes in a circle: {names}")
        chain.append(found)
        current = found
    return chain


def find_variant(name: str, model: str, models: Tree) -> VariantId | None:
    """``name`` as a variant of ``model``, else as ``model:variant``."""
    other, colon, variant = name.rpartition(":")
    if name in _variants(models, model):
        return VariantId(model, name)
    return VariantId(other, variant) if colon and variant in _variants(models, other) else None


def all_variants(models: Tree) -> list[VariantId]:
    """Every variant in file order."""
    return [VariantId(model, variant) for model in models for variant in _variants(models, model)]


def mapping_at(tree: Tree, key: str) -> Tree:
    """The mapping under a key; empty where there is none."""
    value = tree.get(key)
    return cast("Tree", value) if isinstance(value, dict) else {}


def variant_tree(models: Tree, variant: VariantId) -> Tree:
    """A variant's own section; empty where there is none."""
    return mapping_at(_variants(models, variant.model), variant.name)


def _variants(models: Tree, model: str) -> Tree:
    return mapping_at(mapping_at(models, model), "variants")


def _variant_layer(layer: VariantId, models: Tree, owner: VariantId) -> Layer:
    tree = {key: value for key, value in variant_tree(models, layer).items() if key != "extends"}
    if layer == owner:
        return Layer(tree, layer.path, "file")
    return Layer(tree, layer.path, "extends", layer.name if layer.model == owner.model else str(layer))


def _overlay(merged: Merged, into: dict[str, object], tree: Tree, at: KeyPath, layer: Layer) -> None:
    for key, value in tree.items():
        path = (*at, key)
        if value is None and not _keeps_null(path):
            _take_away(merged, into, path)
        elif isinstance(value, dict) and not _is_leaf(path):
            below = into.get(key)
            if not isinstance(below, dict):
                _forget(merged, path)
                below = into[key] = {}
            _overlay(merged, below, value, path, layer)
        else:
            _forget(merged, path)
            into[key] = copy.deepcopy(value)
            merged.sources[path] = layer


def _take_away(merged: Merged, into: dict[str, object], path: KeyPath) -> None:
    if into.pop(str(path[-1]), None) is None:
        merged.idle_nulls.append(path)
    _forget(merged, path)


def _forget(merged: Merged, path: KeyPath) -> None:
    for leaf in [leaf for leaf in merged.sources if leaf[: len(path)] == path]:
        del merged.sources[leaf]


def _keeps_null(path: KeyPath) -> bool:
    return path in _NULL_IS_OFF or path[:-1] == ("filters", "force")


def _is_leaf(path: KeyPath) -> bool:
    """JSON values of flags and request keys are replaced whole, never merged."""
    return path[:-1] in {("args",), ("sampling",), ("filters", "force")}
