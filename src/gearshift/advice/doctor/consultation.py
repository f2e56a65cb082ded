"""A whole visit: what is to be judged, everything gathered, every check run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gearshift.advice.doctor.case import Box, Setup
from gearshift.advice.doctor.examination import examine
from gearshift.advice.doctor.finding import Finding
from gearshift.advice.doctor.gather_case import FindEngine, gather_case
from gearshift.advice.doctor.gather_pins import gather_pins
from gearshift.advice.recipe import Recipe
from gearshift.advice.recipe_places import Places
from gearshift.config import LoadedConfig
from gearshift.domain.variant import Variant


@dataclass(frozen=True, slots=True)
class Consultation:
    """The variants to judge, of a configuration or a recipe; ``recipes`` are what a lock pins of them, by id."""

    variants: tuple[Variant, ...]
    loaded: LoadedConfig | None
    recipes: Mapping[str, Recipe] = field(default_factory=dict)
    places: Places = field(default_factory=lambda: Places(Path(), Path()))
    file: Path | None = None


def consult(visit: Consultation, box: Box, find_engine: FindEngine) -> tuple[Finding, ...]:
    """Every finding about the variants, the configuration and the box, worst first."""
    cases = (
        gather_case(
            variant,
            box=box,
            find_engine=find_engine,
            hub_cache=visit.places.hub_cache,
            pins=gather_pins(recipe, visit.places) if (recipe := visit.recipes.get(variant.id)) else None,
        )
        for variant in visit.variants
    )
    loaded = visit.loaded
    setup = Setup(box, loaded.settings, loaded.warnings) if loaded else Setup(box)
    return examine(cases, setup, file=visit.file, lines=loaded.places if loaded else None)
