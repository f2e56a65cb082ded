"""The resolved configuration: what `gearshift.yaml` means once defaults and `extends:` are applied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from gearshift.domain.variant import EngineKind, EngineRef, Variant

Role = Literal["client", "operator"]  # an operator may use the admin API remotely


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A client's key by name. The secret is read from the environment or a file, never kept in the config."""

    name: str
    secret: str = field(repr=False)
    role: Role = "client"


@dataclass(frozen=True, slots=True)
class Group:
    """llama-swap's swap groups, overriding what the ledgers say about who fits beside whom."""

    name: str
    members: tuple[str, ...]  # variant ids
    swap: bool = True  # at most one member resident
    exclusive: bool = False  # a resident member keeps everything outside the group off the box
    persistent: bool = False  # never stopped to make room


@dataclass(frozen=True, slots=True)
class SideRule:
    """How a side request (titles, tags) is told apart: by a header or by an alias. It never causes a swap."""

    headers: Mapping[str, str] = field(default_factory=dict)  # lower-case name -> value ("*" = any)
    aliases: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Model:
    """What a client asks for by name, with its variants in file order."""

    name: str
    aliases: tuple[str, ...]
    route: str  # "auto" or a variant's name
    variants: tuple[Variant, ...]


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything `serve` needs, validated."""

    host: str = "127.0.0.1"
    port: int = 8888
    api_keys: tuple[ApiKey, ...] = ()
    allow_open: bool = False  # a non-loopback listen without keys, asked for by name
    cors_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()  # Host headers answered beside loopback names and the listen address
    body_limit_bytes: int = 256 * 1024**2
    models: Mapping[str, Model] = field(default_factory=dict)
    groups: tuple[Group, ...] = ()
    preload: tuple[str, ...] = ()
    side: SideRule = field(default_factory=SideRule)
    engines: Mapping[EngineKind, EngineRef] = field(default_factory=dict)  # the default installation by kind
    memory_bytes: int | None = None  # budget of the cpu device; None = what the host has
    keepalive_s: float = 10.0  # SSE comment lines while queued or loading

    def variants(self) -> dict[str, Variant]:
        """Every variant by id, in file order."""
        return {variant.id: variant for model in self.models.values() for variant in model.variants}
