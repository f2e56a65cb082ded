"""Puts variants together: layers, checks, the frozen value, and the notes of where each part came from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from gearshift.config.document import Document
from gearshift.config.files import Base
from gearshift.config.keypath import KeyPath
from gearshift.config.layers import (
    Layer,
    Merged,
    Tree,
    VariantId,
    all_variants,
    extends_chain,
    layers_of,
    mapping_at,
    merge,
    variant_tree,
)
from gearshift.config.loaded import Origin
from gearshift.config.origins import section_origins, variant_origins
from gearshift.config.rules import Finding, check_variant
from gearshift.config.schema import FileSection, ModelSection, VariantSection
from gearshift.config.variant import Installations, build_variant
from gearshift.domain.errors import Problem
from gearshift.domain.settings import Model
from gearshift.domain.variant import Variant


@dataclass(slots=True)
class Assembly:
    """The variants of one document, from two trees of it with placeholders filled.

    ``whole`` has all that is written, so that what a variant extends is told right; ``sound`` lacks the parts that did
    not fit the schema, which were reported. ``problems`` and ``leaves`` grow as models are assembled.
    """

    document: Document
    whole: Tree
    sound: Tree
    base: Base
    engines: Installations
    problems: list[Problem] = field(default_factory=list)
    leaves: dict[KeyPath, Origin] = field(default_factory=dict)

    def models(self, file: FileSection) -> dict[str, Model]:
        """Every model with the variants that are sound."""
        self.leaves.update(section_origins(FileSection, (), self.document, self.base, {"defaults", "models"}))
        return {name: self._model(name, section) for name, section in file.models.items()}

    @property
    def _whole_models(self) -> Tree:
        return mapping_at(self.whole, "models")

    @property
    def _sound_models(self) -> Tree:
        return mapping_at(self.sound, "models")

    def _model(self, name: str, section: ModelSection) -> Model:
        own = {"variants", "sampling", "filters"}
        self.leaves.update(section_origins(ModelSection, ("models", name), self.document, self.base, own))
        ids = [variant for variant in all_variants(self._sound_models) if variant.model == name]
        variants = [built for variant in ids if (built := self._variant(variant)) is not None]
        return Model(name, tuple(section.aliases), section.route, tuple(variants))

    def _variant(self, variant: VariantId) -> Variant | None:
        """The variant, its origins noted; None where something is wrong with it, which is then among ``problems``."""
        chain = extends_chain(variant, self._whole_models, self.document)
        if isinstance(chain, Problem):
            self.problems.append(chain)
            return None
        if any(self._is_pruned(link) for link in (variant, *chain)):
            return None
        layers = layers_of(variant, self._sound_models, mapping_at(self.sound, "defaults"), chain)
        merged = merge(layers)
        section = self._section(merged, variant.path)
        if section is None or not self._is_sound(section, merged, layers, variant.path):
            return None
        self.leaves.update(variant_origins(variant.path, merged, self.document, self.base))
        return build_variant(variant.model, variant.name, section, self.base, self.engines)

    def _is_pruned(self, variant: VariantId) -> bool:
        """It, or its `extends`, misfitted and was reported: what seems missing now would have come from there."""
        if variant not in all_variants(self._sound_models):
            return True
        written, kept = (variant_tree(models, variant) for models in (self._whole_models, self._sound_models))
        return written.get("extends") != kept.get("extends")

    def _section(self, merged: Merged, at: KeyPath) -> VariantSection | None:
        """The merged tree as a section. Parts that fit alone rarely misfit together; if so the variant is at fault."""
        try:
            return VariantSection.model_validate(merged.tree)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                place = merged.place(detail["loc"][:1]) or at
                self.problems.append(self.document.problem(place, f"does not fit what it extends: {detail['msg']}"))
            return None

    def _is_sound(self, section: VariantSection, merged: Merged, layers: Sequence[Layer], at: KeyPath) -> bool:
        findings = [*check_variant(section, self.base), *_idle_nulls(merged)]
        for finding in findings:
            if not self._is_echo(finding, merged, layers):
                place = merged.place(finding.field) or merged.place(finding.field[:1]) or (*at, *finding.field)
                problem = self.document.problem(place, finding.message, hint=finding.hint, severity=finding.severity)
                self.problems.append(problem)
        return all(finding.severity != "error" for finding in findings)

    def _is_echo(self, finding: Finding, merged: Merged, layers: Sequence[Layer]) -> bool:
        """A field that seems missing because its value misfitted was reported already."""
        key = finding.field[0]
        if merged.place((key,)) is not None:
            return False
        return any(key not in layer.tree and self.document.get((*layer.at, key)) is not None for layer in layers)


def _idle_nulls(merged: Merged) -> Iterator[Finding]:
    """A flag set to null was most likely meant as a bare flag."""
    for path in merged.idle_nulls:
        if path[0] == "args":
            hint = "write true for a flag without a value; null only takes away what extends brought"
            yield Finding(path, f"{path[-1]} has no value and nothing to take away", hint)
