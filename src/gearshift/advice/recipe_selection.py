"""Which variants a person means, and what the configuration says of each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gearshift.config import LoadedConfig
from gearshift.domain.errors import UnknownModelError
from gearshift.domain.settings import Settings
from gearshift.domain.variant import Variant


def selected(settings: Settings, names: Iterable[str]) -> tuple[Variant, ...]:
    """The variants named by id, or by model or alias, which mean all of its variants; without names every one.

    Raises UnknownModelError.
    """
    variants = settings.variants()
    wanted = tuple(names)
    if not wanted:
        return tuple(variants.values())
    found = [variant for name in wanted for variant in _named(settings, name)]
    return tuple({variant.id: variant for variant in found}.values())


def _named(settings: Settings, name: str) -> tuple[Variant, ...]:
    variants = settings.variants()
    if name in variants:
        return (variants[name],)
    stem, _, variant = name.partition(":")
    for model in settings.models.values():
        if stem == model.name or stem in model.aliases:
            fitting = tuple(own for own in model.variants if not variant or own.name == variant)
            if fitting:
                return fitting
    known = ", ".join(variants) or "none is configured"
    raise UnknownModelError(f"there is no variant {name}", hint=f"known: {known}")


def settings_of(loaded: LoadedConfig, variant: Variant) -> dict[str, Any]:
    """The variant's keys as the file has them, with what it inherits; what nobody set is left out."""
    tree: dict[str, Any] = {}
    prefix = ("models", variant.model, "variants", variant.name)
    for path, origin in loaded.leaves.items():
        if path[: len(prefix)] == prefix and origin.kind not in {"default", "engine"}:
            _put(tree, [str(part) for part in path[len(prefix) :]], origin.value)
    return tree


def _put(tree: dict[str, Any], keys: list[str], value: Any) -> None:
    for key in keys[:-1]:
        tree = tree.setdefault(key, {})
    tree[keys[-1]] = value
