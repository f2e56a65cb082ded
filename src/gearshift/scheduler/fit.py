"""Who may be resident together, and who must leave for whom. All pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from gearshift.scheduler.profile import World


@dataclass(frozen=True, slots=True)
class Tenant:
    """A variant that holds devices now, or is about to."""

    id: str
    devices: frozenset[str]
    held: Mapping[str, int] | None  # bytes by device; None = unknown


@dataclass(frozen=True, slots=True)
class Verdict:
    """Who must leave so that a newcomer fits; ``blocked_by`` can never be made to leave."""

    victims: tuple[str, ...] = ()
    blocked_by: tuple[str, ...] = ()


def may_share(world: World, one: Tenant, other: Tenant) -> bool:
    """Whether two tenants may be resident together as far as groups and unknown sizes go (memory apart)."""
    together = [group for group in world.constraints if {one.id, other.id} <= group.members]
    if any(group.swap for group in together):
        return False
    if together:
        return True
    for group in world.constraints:
        if group.exclusive and len({one.id, other.id} & group.members) == 1:
            return False
    unknown = one.held is None or other.held is None
    return not (unknown and one.devices & other.devices)


def victims(world: World, newcomer: Tenant, residents: Sequence[Tenant]) -> Verdict:
    """Who of ``residents`` must leave for ``newcomer``.

    ``residents`` come in the order in which they would rather be given up (idle and least recently used first). Those
    that groups or unknown sizes forbid leave in any case; of the others as few as make the bytes fit, from the front.
    """
    keep = _persistent(world)
    must = [tenant for tenant in residents if not may_share(world, newcomer, tenant)]
    blocked = tuple(tenant.id for tenant in must if tenant.id in keep)
    if blocked:
        return Verdict(blocked_by=blocked)
    staying = [tenant for tenant in residents if tenant not in must]
    leaving = _make_room(world, newcomer, staying, keep)
    if leaving is None:
        holders = tuple(tenant.id for tenant in staying if tenant.id in keep and tenant.devices & newcomer.devices)
        if holders:
            return Verdict(blocked_by=holders)
        # It does not fit on empty devices by its plan: give it all of them and let the engine say what it lacks.
        leaving = [tenant for tenant in staying if tenant.devices & newcomer.devices]
    return Verdict(victims=tuple(tenant.id for tenant in [*must, *leaving]))


def _persistent(world: World) -> frozenset[str]:
    return frozenset(member for group in world.constraints if group.persistent for member in group.members)


def _make_room(world: World, newcomer: Tenant, staying: Sequence[Tenant], keep: Collection[str]) -> list[Tenant] | None:
    """The fewest of ``staying``, from the front, whose leaving makes the newcomer's bytes fit; None if none do."""
    if newcomer.held is None:
        return []
    declared = [tenant for tenant in staying if _declared_together(world, newcomer, tenant)]
    counted = [tenant for tenant in staying if tenant not in declared]
    leaving: list[Tenant] = []
    for tenant in counted:
        if _fits(world, newcomer, [other for other in counted if other not in leaving]):
            break
        if tenant.id not in keep and tenant.devices & newcomer.devices:
            leaving.append(tenant)
    remaining = [tenant for tenant in counted if tenant not in leaving]
    if not _fits(world, newcomer, remaining):
        return None
    for tenant in list(leaving):  # give back those whose leaving turned out not to matter
        if _fits(world, newcomer, [*remaining, tenant]):
            remaining.append(tenant)
            leaving.remove(tenant)
    return leaving


def _declared_together(world: World, one: Tenant, other: Tenant) -> bool:
    """A group without swapping says that its members fit, whatever the figures say."""
    return any(not group.swap and {one.id, other.id} <= group.members for group in world.constraints)


def _fits(world: World, newcomer: Tenant, residents: Sequence[Tenant]) -> bool:
    held = newcomer.held or {}
    return all(
        need + sum((tenant.held or {}).get(device, 0) for tenant in residents) <= world.capacity.get(device, need)
        for device, need in held.items()
    )
