"""What a reload would change, by variant."""

from __future__ import annotations

from dataclasses import dataclass

from gearshift.domain.settings import Settings


@dataclass(frozen=True, slots=True)
class Diff:
    """Variant ids in the order of the file that has them. ``server`` names changed keys outside the models."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    untouched: tuple[str, ...] = ()
    server: tuple[str, ...] = ()


def diff(old: Settings, new: Settings) -> Diff:
    """Compare two resolved configurations: only what differs in effect counts, not how it is written.

    A variant that takes its engine from `engines:` changes with it.
    """
    before, after = old.variants(), new.variants()
    common = [name for name in after if name in before]
    changed = [name for name in common if before[name] != after[name] or _engine_moved(name, old, new)]
    return Diff(
        added=tuple(name for name in after if name not in before),
        removed=tuple(name for name in before if name not in after),
        changed=tuple(changed),
        untouched=tuple(name for name in common if name not in changed),
        server=tuple(_server_changes(old, new)),
    )


def _engine_moved(name: str, old: Settings, new: Settings) -> bool:
    engine = new.variants()[name].engine
    if engine.version or engine.path:
        return False
    return old.engines.get(engine.kind) != new.engines.get(engine.kind)


def _server_changes(old: Settings, new: Settings) -> list[str]:
    names = ["host", "port", "api_keys", "allow_open", "cors_origins", "allowed_hosts", "body_limit_bytes"]
    names += ["groups", "preload", "side", "engines", "memory_bytes", "keepalive_s"]
    return [name for name in names if getattr(old, name) != getattr(new, name)]
