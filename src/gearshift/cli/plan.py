"""`gearshift plan`: does it fit, and how fast can it be, before anything is loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import click

from gearshift.advice.calibrations import Calibrations
from gearshift.advice.measured import Measured, measured_decode
from gearshift.advice.plan import PlanAnswer, SpeedQuestion, answer, loadable
from gearshift.advice.plan_flags import changed, flag_devices, foreign_flag, stated
from gearshift.advice.plan_variants import Box, ask_variant, box_of, cards_of, with_draft
from gearshift.artifacts import Hub, ModelFacts, read_model, read_remote_gguf, shown
from gearshift.cli.box import known_card, this_box
from gearshift.cli.exits import Exit
from gearshift.cli.plan_options import AUTO, PlanOptions, plan_options
from gearshift.cli.plan_view import Subject, render
from gearshift.cli.session import Session, pass_session
from gearshift.cli.variant_name import VariantName
from gearshift.config import find_config, load_config
from gearshift.domain.device import CPU_DEVICE, Device
from gearshift.domain.errors import ConfigError, GearshiftError, UnknownModelError
from gearshift.domain.variant import EngineKind, Variant
from gearshift.hardware import host_memory
from gearshift.planner import DeviceKind, Gpu, PlannedDevice, PlanRequest, plan, planned_devices, settled
from gearshift.planner.vllm_rules import NEWEST, is_vllm_version
from gearshift.store import StoreError, open_store
from gearshift.toolchain import Toolchain

_OF_THE_REQUEST = (
    "context", "kv_dtype", "kv_bytes", "speculation", "prefix_caching", "max_num_seqs", "max_num_batched_tokens",
    "parallel", "ubatch", "split",
)  # fmt: skip
_ANOTHER = (*_OF_THE_REQUEST, "device", "gpu", "gpus")  # what makes it another variant than the one measured
_FLAG_FORM = ("engine", "engine_version", "weights")


@click.command("plan")
@click.argument("variant", required=False, type=VariantName())
@plan_options
@pass_session
def command(session: Session, /, variant: str | None, *, as_json: bool, **options: Any) -> None:
    """Say whether a variant fits, how long, and how fast it can be.

    VARIANT is one of the configuration; the options then try something else with it. With --engine and --weights
    everything comes from the options. Nothing is started, no weights are read or fetched, only headers.

    Exit status 0 when it fits or that cannot be told, 1 when it does not fit, 2 for wrong usage.
    """
    given = PlanOptions.of(options)
    if given.device == "cpu" and (given.gpus or 1) > 1 and given.engine != "vllm":
        msg = "--gpus above 1 goes with --device cuda"
        raise click.UsageError(msg)
    with _usage_errors():
        subject, found = _of_variant(session, variant, given) if variant else _of_flags(session, given)
    session.output.emit(found.document(), as_json=as_json, human=lambda: render(subject, found))
    if found.plan.fits is False:
        raise click.exceptions.Exit(Exit.FAILED)


@contextmanager
def _usage_errors() -> Iterator[None]:
    """What cannot be planned is a wrong question: exit status 1 says that it does not fit, and nothing else."""
    try:
        yield
    except ConfigError:
        raise
    except GearshiftError as error:
        raise click.UsageError(f"{error.message}{f' ({error.hint})' if error.hint else ''}") from error
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _of_flags(session: Session, given: PlanOptions) -> tuple[Subject, PlanAnswer]:
    engine, weights = _model_of_flags(given)
    gpu = given.gpu
    kind: DeviceKind = given.device or "cuda"
    box = this_box(session) if gpu is None else Box(())
    devices = flag_devices(kind, given.gpus or 1, gpu, box.devices)
    request = PlanRequest(
        engine,
        devices,
        version=given.engine_version,
        device_kind=kind,
        other_bytes=_others_on(box, devices),
        ram_bytes=box.ram_bytes,
    )
    request = with_draft(changed(request, _changes(given, engine)), read_model)
    facts = stated(loadable(engine, _facts(session, weights)), given.weights_size)
    if not (request.context or facts.context_train):
        raise click.UsageError("the model's files do not say how long its context is: give --context")
    request = settled(request, facts, automatic_pool=given.kv_bytes == AUTO)
    card = gpu or known_card(session, _host_or(kind, box.devices), devices[0].id)
    found = answer(request, facts, plan(request, facts), _question(given, card))
    name = weights.name if isinstance(weights, Path) else PurePosixPath(shown(weights)).name
    return Subject(name, engine, given.engine_version or _newest(engine)), found


def _model_of_flags(given: PlanOptions) -> tuple[EngineKind, Path | str]:
    """The engine and the weights that the flag form names. Raises UsageError for what it lacks or cannot have."""
    engine, weights = given.engine, given.weights
    if engine is None or weights is None:
        msg = "name a VARIANT of the configuration, or give --engine and --weights"
        raise click.UsageError(msg)
    if given.config is not None:
        msg = "--config goes with a VARIANT"
        raise click.UsageError(msg)
    if isinstance(weights, Path) and not weights.exists():
        raise click.BadParameter(f"there is no {weights}{_to_fetch(weights)}", param_hint="--weights")
    if engine == "vllm" and given.engine_version and not is_vllm_version(given.engine_version):
        msg = f"{given.engine_version!r} is no version of vLLM, such as 0.32.0"
        raise click.BadParameter(msg, param_hint="--engine-version")
    return engine, weights


def _facts(session: Session, weights: Path | str) -> ModelFacts:
    """Of a model on disk, or at an address, of which only the header is fetched. Raises GearshiftError."""
    if isinstance(weights, Path):
        return read_model(weights)
    with session.output.progress() as show:
        show(f"reading the header of {shown(weights)}")
        return read_remote_gguf(weights, Hub.of(session.env).login(weights))


def _to_fetch(weights: Path) -> str:
    """What will do instead of the weights, where the path looks like a model of the hub."""
    if (
        weights.is_absolute()
        or weights.suffix in {".gguf", ".json", ".safetensors"}
        or len(weights.parts) != len(("owner", "name"))
    ):
        return ""
    return (
        "; it is a path on this box. To plan a model of the hub for vllm before it is fetched, fetch its config.json "
        "and give that, with --weights-size for the files"
    )


def _newest(engine: EngineKind) -> str | None:
    """Whose rules an omitted version means; llama.cpp's do not differ by build."""
    return "{}.{}, the newest known".format(*NEWEST) if engine == "vllm" else None


def _of_variant(session: Session, name: str, given: PlanOptions) -> tuple[Subject, PlanAnswer]:
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
    question = _question(given, card)
    if question.measured is None and not any(getattr(given, name) is not None for name in _ANOTHER):
        question = replace(question, measured=_measured(session, variant, question))
    found = ask_variant(
        variant,
        box,
        _reader(variant, given.weights_size),
        engine_version=version,
        changes=_changes(given, variant.engine.kind),
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


def _changes(given: PlanOptions, engine: EngineKind) -> dict[str, Any]:
    """Options that change the request. Raises UsageError for one of the other engine."""
    if foreign := foreign_flag(engine, given.by_flag()):
        msg = f"{engine} has no --{foreign.replace('_', '-')}"
        raise click.UsageError(msg)
    changes = {name: getattr(given, name) for name in _OF_THE_REQUEST}
    return changes | ({"kv_bytes": None} if given.kv_bytes == AUTO else {})


def _question(given: PlanOptions, gpu: Gpu | None) -> SpeedQuestion:
    depth, batch, acceptance, tok_s = given.depth, given.batch, given.acceptance, given.measured
    measured = None if tok_s is None else Measured(tok_s, depth, batch, acceptance)
    return SpeedQuestion(gpu, depth, batch, acceptance, measured)


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
    from gearshift.control.names import NameResolver  # noqa: PLC0415 - 300 ms that the flag form need not pay

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


def _others_on(box: Box, devices: Sequence[PlannedDevice]) -> dict[str, int]:
    return {device.id: box.others[device.id] for device in devices if box.others.get(device.id)}


def _where(variant: Variant, box: Box) -> Sequence[Device]:
    """What the variant would run on, as far as it is here: GPUs that are not do not make it the host's."""
    devices = planned_devices(variant, box.devices)
    absent = variant.gpus is not None and all(device.id == CPU_DEVICE for device in devices)
    return () if absent else devices


def _host_or(kind: str, devices: Sequence[Device]) -> Sequence[Device]:
    """The devices that a ceiling may be of: with ``cpu`` the host's memory, also where there are GPUs."""
    return (Device(CPU_DEVICE, None, "host memory", 0),) if kind == "cpu" else devices
