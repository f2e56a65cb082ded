"""What a model name in a request means. An exact name always wins over splitting it at the colon."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gearshift.domain.errors import UnknownModelError
from gearshift.domain.leasing import Route
from gearshift.domain.settings import Model, Settings
from gearshift.domain.spelling import near
from gearshift.domain.variant import Variant


class NameResolver:
    """Resolves names against one configuration.

    ``warmth`` ranks a variant id (0 = ready, higher = further away); `route: auto` takes the warmest, file order
    breaking ties, until there are measurements to route by.
    """

    def __init__(self, settings: Settings, warmth: Callable[[str], int]) -> None:
        self._settings = settings
        self._warmth = warmth
        self._variants = settings.variants()
        self._aliases = {alias: model for model in settings.models.values() for alias in model.aliases}

    def resolve(self, name: str | None) -> Route:
        """Raises UnknownModelError naming what is near, or that a name is needed."""
        if name is None:
            return Route(self._routed(self._only_model()))
        side = name in self._settings.side.aliases
        model = self._model(name)
        if model is not None:
            return Route(self._routed(model), side=side)
        variant = self._variants.get(name) or self._split(name)
        if variant is None:
            raise UnknownModelError(f"no model, variant or alias is called {name!r}", hint=self._advice(name))
        return Route(variant, side=side)

    def _only_model(self) -> Model:
        models = list(self._settings.models.values())
        if len(models) != 1:
            raise UnknownModelError("the request names no model", hint=f'set "model" to one of: {self._known()}')
        return models[0]

    def _model(self, name: str) -> Model | None:
        return self._settings.models.get(name) or self._aliases.get(name)

    def _routed(self, model: Model) -> Variant:
        if model.route != "auto":
            return self._variants[f"{model.name}:{model.route}"]
        return min(model.variants, key=lambda variant: self._warmth(variant.id))

    def _split(self, name: str) -> Variant | None:
        """``model:variant`` or ``alias:variant``, at any of the colons a name may hold."""
        for at in _colons(name):
            model = self._model(name[:at])
            if model is not None and (variant := self._variants.get(f"{model.name}:{name[at + 1 :]}")):
                return variant
        return None

    def _advice(self, name: str) -> str:
        known = [*self._settings.models, *self._aliases, *self._variants]
        return near(name, known, most=3) or f"known are: {self._known()}"

    def _known(self) -> str:
        return ", ".join([*self._settings.models, *self._variants]) or "none; the configuration has no models"


def _colons(name: str) -> Iterator[int]:
    at = name.rfind(":")
    while at > 0:
        yield at
        at = name.rfind(":", 0, at)
