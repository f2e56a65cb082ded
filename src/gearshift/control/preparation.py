"""What has to be known before a variant can be scheduled or started: engine, model file, plan, placement.

Everything here may read files or run a binary once, so the loop calls it in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gearshift import engines
from gearshift.advice.plan_variants import projector_bytes
from gearshift.artifacts import ModelFacts
from gearshift.config import Presence, presence
from gearshift.domain.device import CPU_DEVICE, Device
from gearshift.domain.engine import EngineInstall
from gearshift.domain.errors import Failure, GearshiftError, LoadFailedError
from gearshift.domain.launch import LaunchSpec, Placement
from gearshift.domain.paths import launch_folder
from gearshift.domain.provenance import EngineBuild
from gearshift.domain.settings import Settings
from gearshift.domain.units import GIB
from gearshift.domain.variant import EngineRef, Variant
from gearshift.planner import Calibration, Plan, draft_weights, plan_variant
from gearshift.scheduler import Constraint, Profile, World

# What stays on a GPU asleep when nothing was measured yet: field recordings lie between 0.9 and 6 GiB.
ASLEEP_RESIDUE = 2 * GIB


@dataclass(frozen=True, slots=True)
class Lookups:
    """What preparation asks of the rooms below it, as functions so that tests can stand in for them."""

    find_engine: Callable[[EngineRef], EngineInstall]  # raises GearshiftError when it is not installed
    read_model: Callable[[Path], ModelFacts]  # raises GearshiftError on a file that is no model
    calibration: Callable[[str], Calibration | None]  # of an earlier start, by `Variant.start_key`
    presence: Callable[[Path], Presence] = presence  # of weights; never waits for a dead mount


class Preparation:
    """Plans every variant of a configuration and makes launch specs from them."""

    def __init__(
        self, lookups: Lookups, *, devices: Sequence[Device], env: Mapping[str, str], logs: Path, sleep_ram: int
    ) -> None:
        self._lookups = lookups
        self._devices = tuple(devices)
        self._env = dict(env)
        self._logs = logs
        self._sleep_ram = sleep_ram
        self._facts: dict[tuple[str, float, int], ModelFacts | None] = {}
        self._plans: dict[str, Plan] = {}
        self._found: dict[EngineRef, EngineInstall] = {}  # as last asked for
        self._installs: dict[str, EngineInstall] = {}

    @property
    def devices(self) -> tuple[Device, ...]:
        return self._devices

    def version(self, variant: Variant) -> str | None:
        """The version of the engine that runs it: as found, else as pinned. Never asks, so it never blocks."""
        found = self._found.get(variant.engine)
        return found.version if found else variant.engine.version

    def start_key(self, variant: Variant) -> str:
        """The key under which its starts are remembered; it changes with the launch and with the engine's build."""
        found = self._found.get(variant.engine)
        return variant.start_key(found.build if found else None)

    def build(self, variant: Variant) -> EngineBuild:
        """The engine that the variant's last launch spec was made for."""
        install = self._installs.get(variant.id)
        if install is None:
            return EngineBuild(variant.engine.kind, None, None)
        return EngineBuild(install.kind, install.version, install.digest)

    def plan(self, variant: str) -> Plan | None:
        """The plan made for a variant when the world was last drawn."""
        return self._plans.get(variant)

    def world(self, settings: Settings) -> World:
        """The scheduler's view of a configuration. Blocking: reads model headers, may ask an engine its version."""
        variants = settings.variants()
        for engine in {variant.engine for variant in variants.values()}:  # one may have been installed meanwhile
            with suppress(GearshiftError):
                self._found[engine] = self._lookups.find_engine(engine)
        self._plans = {variant.id: plan for variant in variants.values() if (plan := self._planned(variant))}
        profiles = {variant.id: self._profile(variant) for variant in variants.values()}
        constraints = tuple(
            Constraint(frozenset(group.members), group.swap, group.exclusive, group.persistent)
            for group in settings.groups
        )
        capacity = {device.id: device.total_bytes for device in self._devices}
        return World(profiles, capacity, constraints, self._sleep_ram)

    def spec(self, variant: Variant, port: int) -> LaunchSpec:
        """Everything needed to start it on ``port``. Blocking. Raises LoadFailedError saying what is missing."""
        try:
            install = self._lookups.find_engine(variant.engine)
            self._installs[variant.id] = install
            self._replan(variant, install)
            return engines.launch_spec(
                variant,
                self._placement(variant),
                install,
                port=port,
                folder=launch_folder(self._logs, variant.id),
                base_env=self._env,
                devices=self._devices,
            )
        except LoadFailedError:
            raise
        except GearshiftError as error:
            failure = Failure(error.message, fix=error.hint)
            raise LoadFailedError(f"{variant.id} cannot be started: {error.message}", failure=failure) from error

    # -- parts -----------------------------------------------------------------------------------------------------

    def _planned(self, variant: Variant) -> Plan | None:
        try:
            devices = self._placed_on(variant)
        except LoadFailedError:
            return None
        return plan_variant(
            variant,
            self._model(variant.weights),
            devices,
            engine_version=self.version(variant),
            calibration=self._lookups.calibration(self.start_key(variant)),
            draft=self._model(draft_weights(variant)),
            projector_bytes=projector_bytes(variant),
        )

    def _replan(self, variant: Variant, install: EngineInstall) -> None:
        """Plan again if the engine is not the one that was planned with: its pool and blocks may differ."""
        known = self._found.get(variant.engine)
        self._found[variant.engine] = install
        if (known is None or known.build != install.build) and (plan := self._planned(variant)):
            self._plans[variant.id] = plan

    def _model(self, weights: str | None) -> ModelFacts | None:
        """Facts of weights, or None where there is no file to read: their size is then unknown, not zero."""
        if weights is None or self._lookups.presence(path := Path(weights)) != "there":
            return None
        stat = path.stat()
        key = (str(path), stat.st_mtime, stat.st_size)
        if key not in self._facts:
            try:
                self._facts[key] = self._lookups.read_model(path)
            except (GearshiftError, OSError):
                self._facts[key] = None  # the engine will say what is wrong with it when it is started
        return self._facts[key]

    def _placed_on(self, variant: Variant) -> tuple[Device, ...]:
        """The devices a variant names; all of them when it names none. Raises LoadFailedError for one not here."""
        if variant.gpus is None:
            return self._devices
        by_name: dict[int | str, Device] = {device.id: device for device in self._devices}
        by_name |= {device.index: device for device in self._devices if device.index is not None}
        missing = [gpu for gpu in variant.gpus if gpu not in by_name]
        if missing:
            cause = f"this box has no GPU {', '.join(map(str, missing))}"
            raise LoadFailedError(cause, failure=Failure(cause, fix=_gpus_here(self._devices)))
        return tuple(by_name[gpu] for gpu in variant.gpus)

    def _placement(self, variant: Variant) -> Placement:
        plan = self._plans.get(variant.id)
        devices = tuple(device.id for device in self._placed_on(variant))
        kv_bytes = plan.kv_bytes if plan and variant.kv_bytes == "auto" else variant.kv_bytes
        return Placement(devices, kv_bytes if isinstance(kv_bytes, int) else None, variant.context)

    def _profile(self, variant: Variant) -> Profile:
        plan, timing = self._plans.get(variant.id), variant.timing
        demand = plan.bytes_by_device if plan else None
        try:
            devices = frozenset(device.id for device in self._placed_on(variant))
        except LoadFailedError:
            devices = frozenset()
        return Profile(
            id=variant.id,
            devices=devices,
            demand=demand,
            max_inflight=variant.max_inflight or engines.default_inflight(variant),
            queue_limit=variant.queue_limit,
            max_wait_s=timing.max_wait_s,
            min_resident_s=timing.min_resident_s,
            drain_timeout_s=timing.drain_timeout_s,
            unload_after_s=timing.unload_after_s,
            asleep=_asleep(variant, devices),
            asleep_ram=_asleep_ram(variant, demand),
            launch=variant.launch_digest,
        )


def _asleep(variant: Variant, devices: frozenset[str]) -> Mapping[str, int] | None:
    if variant.sleep is None or CPU_DEVICE in devices:
        return None
    return dict.fromkeys(devices, ASLEEP_RESIDUE)


def _asleep_ram(variant: Variant, demand: Mapping[str, int] | None) -> int:
    """Level 1 keeps the weights in host memory; without a budget of its own, as much as it holds on the devices."""
    if variant.sleep is None or variant.sleep.level != 1:
        return 0
    return variant.sleep.ram_bytes if variant.sleep.ram_bytes is not None else sum((demand or {}).values())


def _gpus_here(devices: Sequence[Device]) -> str:
    """What `gpus` may say on this box."""
    here = ", ".join(f"{device.index}: {device.name} {device.id}" for device in devices if device.index is not None)
    return f"set gpus: to what is here ({here}), or leave it out" if here else "leave gpus: out; there is no GPU here"
