"""The form of `gearshift plan` that names a variant of the configuration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import click

from gearshift.advice.box import Box, box_of
from gearshift.advice.calibrations import Calibrations
from gearshift.advice.measured import Measured, measured_decode
from gearshift.advice.plan import PlanAnswer, SpeedQuestion
from gearshift.advice.plan_flags import stated
from gearshift.advice.plan_variants import ask_variant, cards_of
from gearshift.artifacts import ModelFacts, read_model
from gearshift.cli.box import known_card, this_box
from gearshift.cli.plan_options import AUTO, PlanOptions
from gearshift.cli.plan_question import OF_THE_REQUEST, changes_of, question_of
from gearshift.cli.plan_view import Subject
from gearshift.cli.session import Session
from gearshift.config import find_config, load_config
from gearshift.control.names import NameResolver
from gearshift.domain.device import CPU_DEVICE, Device
from gearshift.domain.errors import GearshiftError, UnknownModelError
from gearshift.domain.variant import Variant
from gearshift.hardware import host_memory
from gearshift.planner import planned_devices
from gearshift.store import StoreError, open_store
from gearshift.toolchain import Toolchain

_ANOTHER = (*OF_THE_REQUEST, "device", "gpu", "gpus")  # what makes it another variant than the one measured
_FLAG_FORM = ("engine", "engine_version", "weights")


def of_variant(session: Session, name: str, given: PlanOptions) -> tuple[Subject, PlanAnswer]:
    """The subject and all answers. Raises UsageError for options that are the configuration's to say."""
    if said := next((flag for flag in _FLAG_FORM if getattr(given, flag) is not None), None):
        msg = f"--{said.replace('_', '-')} is the configuration's to say for {name}: leave it or VARIANT out"
        raise click.UsageError(msg)
    variant = _variant(session, name, given.config)
    version, build = _engine(session, variant)
    start = variant.start_key(build)  # of the variant as it is configured, whatever is tried instead
    if given.weights_size is not None and variant.weights is None:
        msg = f"{name} names no weights that --weights-size could be of"
        raise click.UsageError(msg)
    variant, box = _placed(session, variant, given)
    if given.kv_bytes == AUTO:
        variant = replace(variant, kv_bytes=AUTO)
    card = given.gpu or known_card(session, _where(variant, box))
    question = question_of(given, card)
    if question.measured is None and not any(getattr(given, name) is not None for name in _ANOTHER):
        question = replace(question, measured=_measured(session, variant, question))
    found = ask_variant(
        variant,
        box,
        _reader(variant, given.weights_size),
        engine_version=version,
        changes=changes_of(given, variant.engine.kind),
        question=question,
        calibration=Calibrations(session.paths.calibrations).of(start),
    )
    return Subject(variant.id, variant.engine.kind, version), found


def _reader(variant: Variant, size: int | None) -> Callable[[Path], ModelFacts]:
    """Reads model files, with what was said of the size of the variant's own weights."""

    def read(path: Path) -> ModelFacts:
        mine = variant.weights is not None and path == Path(variant.weights)
        return stated(read_model(path), size if mine else None)

    return read


def _placed(session: Session, variant: Variant, given: PlanOptions) -> tuple[Variant, Box]:
    """The variant and where to plan it: this box, its host memory alone, its first cards, or cards of another kind."""
    gpu, cards = given.gpu, given.gpus
    if given.device == "cpu":
        total = gpu.total_bytes if gpu else host_memory().total_bytes
        return replace(variant, gpus=None), Box((Device(CPU_DEVICE, None, "host memory", total),))
    box = this_box(session) if gpu is None else box_of(gpu, cards or cards_of(variant))
    if not cards:
        return variant, box
    gpus = tuple(device for device in box.devices if device.id != CPU_DEVICE)
    if len(gpus) < cards:
        msg = f"this box has {len(gpus)} GPUs, not {cards}: name them with --gpu"
        raise click.UsageError(msg)
    return replace(variant, gpus=None), Box(gpus[:cards], box.others, box.ram_bytes)


def _measured(session: Session, variant: Variant, question: SpeedQuestion) -> Measured | None:
    """What this box measured of the variant; a store that cannot be read costs the figure, not the plan."""
    if not session.paths.database.exists():
        return None
    try:
        store = open_store(session.paths.database).measurements
        return measured_decode(store, variant, depth=question.depth, batch=question.batch)
    except StoreError as error:
        session.output.fail(error)
        return None


def _variant(session: Session, name: str, config: Path | None) -> Variant:
    """The variant that ``serve`` would take for this name. Raises UsageError for none."""
    named = config or (Path(session.env["GEARSHIFT_CONFIG"]) if session.env.get("GEARSHIFT_CONFIG") else None)
    file = named or find_config(Path.cwd(), session.env)
    if file is None:
        msg = f"there is no configuration here that could have {name}: name it with --config"
        raise click.UsageError(msg)
    try:
        return NameResolver(load_config(file, session.env).settings, lambda _: 0).resolve(name).variant
    except UnknownModelError as error:
        raise click.BadParameter(f"{error.message} in {file} ({error.hint})", param_hint="VARIANT") from error


def _engine(session: Session, variant: Variant) -> tuple[str | None, str | None]:
    """Version and build of the engine that would run it, as far as it is installed."""
    try:
        install = Toolchain(session.paths, session.env).find(variant.engine)
    except GearshiftError:
        return variant.engine.version, None
    return install.version, install.build


def _where(variant: Variant, box: Box) -> Sequence[Device]:
    """What the variant would run on, as far as it is here: GPUs that are not do not make it the host's."""
    devices = planned_devices(variant, box.devices)
    absent = variant.gpus is not None and all(device.id == CPU_DEVICE for device in devices)
    return () if absent else devices
