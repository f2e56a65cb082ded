"""Who may be resident together, and who must leave for whom. All pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gearshift.scheduler.profile import World


@dataclass(frozen=True, slots=True)
class Tenant:
    """A variant that holds devices now, or is about to."""

    id: str
    devices: frozenset[str]
    held: Mapping[str, int] | None  # bytes by device; None = unknown
    asleep: bool = False  # groups speak of residents, and a sleeper is none: only its bytes count
    fixed: bool = False  # cannot leave, because its stop failed


@dataclass(frozen=True, slots=True)
class Eviction:
    """Who must leave so that a newcomer fits; ``blocked_by`` are in its way and can never be made to leave."""

    victims: tuple[str, ...] = ()
    blocked_by: tuple[str, ...] = ()


def may_share(world: World, one: Tenant, other: Tenant) -> bool:
    """Whether two tenants may hold devices together as far as groups and unknown sizes go (known bytes apart)."""
    pair = {one.id, other.id}
    together = [group for group in world.constraints if pair <= group.members]
    if together and not any(group.swap for group in together):
        return True
    if not (one.asleep or other.asleep) and (together or _excluded(world, one, other)):
        return False
    unknown = one.held is None or other.held is None
    return not (unknown and one.devices & other.devices)


def eviction_for(world: World, newcomer: Tenant, residents: Sequence[Tenant]) -> Eviction:
    """Who of ``residents`` must leave for ``newcomer``.

    ``residents`` come cheapest first: the order in which they are better given up (idle and least recently used ones
    before busy ones). Those that groups or unknown sizes forbid beside the newcomer leave in any case; of the others,
    counted by their bytes, as few as needed leave, from the front.
    """
    must = [tenant for tenant in residents if not may_share(world, newcomer, tenant)]
    blocked = tuple(tenant.id for tenant in must if stays(world, tenant, newcomer))
    if blocked:
        return Eviction(blocked_by=blocked)
    counted = [tenant for tenant in residents if tenant not in must and not _declared(world, newcomer, tenant)]
    leaving = _fewest(world, newcomer, counted)
    if leaving is None:
        rivals = [tenant for tenant in counted if tenant.devices & newcomer.devices]
        holders = tuple(tenant.id for tenant in rivals if stays(world, tenant, newcomer))
        if holders:
            return Eviction(blocked_by=holders)
        leaving = rivals  # by its plan it fits nowhere: give it all of its devices and let the engine say what it lacks
    return Eviction(victims=tuple(tenant.id for tenant in [*must, *leaving]))


def stays(world: World, tenant: Tenant, newcomer: Tenant) -> bool:
    """Whether a tenant cannot be made to leave for this newcomer. Members of one persistent group may swap."""
    return tenant.fixed or _persists(world, tenant.id, newcomer.id)


def _persists(world: World, kept: str, against: str) -> bool:
    return any(
        group.persistent and kept in group.members and against not in group.members for group in world.constraints
    )


def _excluded(world: World, one: Tenant, other: Tenant) -> bool:
    """An exclusive group keeps everybody else off the box, except whom another group made persistent."""
    return any(
        group.exclusive and inside.id in group.members and outside.id not in group.members
        for inside, outside in ((one, other), (other, one))
        if not _persists(world, outside.id, inside.id)
        for group in world.constraints
    )


def _declared(world: World, one: Tenant, other: Tenant) -> bool:
    """A group without swapping says that its members fit, whatever the figures say."""
    return any(not group.swap and {one.id, other.id} <= group.members for group in world.constraints)


def _fewest(world: World, newcomer: Tenant, counted: Sequence[Tenant]) -> list[Tenant] | None:
    """The fewest of ``counted``, from the front, whose leaving makes the newcomer's bytes fit; None if none do."""
    if newcomer.held is None:
        return []
    staying, leaving = list(counted), list[Tenant]()
    for tenant in counted:
        if _fits(world, newcomer, staying):
            break
        if tenant.devices & newcomer.devices and not stays(world, tenant, newcomer):
            staying.remove(tenant)
            leaving.append(tenant)
    if not _fits(world, newcomer, staying):
        return None
    for tenant in reversed(leaving):  # spare those whose leaving turned out not to matter, the dearest first
        if _fits(world, newcomer, [*staying, tenant]):
            staying.append(tenant)
    return [tenant for tenant in leaving if tenant not in staying]


def _fits(world: World, newcomer: Tenant, residents: Sequence[Tenant]) -> bool:
    held = newcomer.held or {}
    return all(
        need + sum((tenant.held or {}).get(device, 0) for tenant in residents) <= world.capacity.get(device, need)
        for device, need in held.items()
    )
