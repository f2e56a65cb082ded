"""An engine as the toolchain found it, and the flags that its server takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gearshift.domain.variant import EngineKind


@dataclass(frozen=True, slots=True)
class EngineInstall:
    """One installed engine as the toolchain found it."""

    kind: EngineKind
    version: str | None  # None = the binary does not say
    command: tuple[str, ...]  # how its server is started, without flags
    path: Path  # its folder (managed) or binary (the user's own)
    managed: bool
    flags: FlagMap | None = None  # None = no flag map could be read
    digest: str | None = None  # sha256 of the binary, where the version alone does not identify it

    @property
    def build(self) -> str | None:
        """What tells it from every other engine of its kind, as far as that is known."""
        return self.digest or self.version


@dataclass(frozen=True, slots=True)
class Flag:
    """One long flag of an engine's server."""

    name: str  # without dashes: "max-model-len"
    aliases: tuple[str, ...] = ()
    takes_value: bool = True
    repeatable: bool = False  # takes a list of values
    choices: tuple[str, ...] = ()
    value_optional: bool = False
    negations: tuple[str, ...] = ()  # the aliases that switch it off: "no-enable-prefix-caching"


@dataclass(frozen=True, slots=True)
class FlagMap:
    """The flags one engine version takes, and where they came from."""

    kind: EngineKind
    version: str | None
    flags: Mapping[str, Flag]  # by canonical name and by every alias
    verified: bool  # read from a binary's --help, not from the packaged table
