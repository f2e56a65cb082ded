"""What loading a file gives: settings, warnings, and for each value where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from gearshift.config.keypath import KeyPath, dotted
from gearshift.domain.errors import Problem
from gearshift.domain.settings import Settings

OriginKind = Literal["file", "defaults", "model", "extends", "default", "engine"]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a resolved value came from. ``engine``: nobody set it, the engine chooses."""

    value: object  # as the file says it, placeholders unfilled, secrets redacted
    kind: OriginKind
    line: int | None = None
    file: Path | None = None
    inherited_from: str | None = None  # a variant, for kind "extends"

    def __str__(self) -> str:
        where = f"{self.file.name if self.file else 'line'}:{self.line}" if self.line else ""
        word = {"file": "", "extends": f"extends {self.inherited_from}"}.get(self.kind, self.kind)
        return ", ".join(part for part in (word, where) if part)


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A configuration that can be served. ``leaves`` are its resolved values; ``places`` gives lines by dotted path."""

    settings: Settings
    warnings: tuple[Problem, ...] = ()
    leaves: Mapping[KeyPath, Origin] = field(default_factory=dict)
    places: Mapping[str, int] = field(default_factory=dict)
    file: Path | None = None

    @property
    def origins(self) -> dict[str, Origin]:
        """The resolved values by dotted path, in the order of the schema."""
        return {dotted(path): origin for path, origin in self.leaves.items()}
