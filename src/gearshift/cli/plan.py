"""`gearshift plan`: does it fit, and how fast can it be, before anything is loaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import click

from gearshift.advice.box import Box
from gearshift.advice.plan import PlanAnswer, answer, loadable
from gearshift.advice.plan_flags import changed, flag_devices, stated, with_draft
from gearshift.artifacts import Hub, ModelFacts, read_model, read_remote_gguf, shown
from gearshift.cli.box import known_card, this_box
from gearshift.cli.exits import Exit
from gearshift.cli.plan_options import AUTO, PlanOptions, plan_options
from gearshift.cli.plan_question import changes_of, question_of
from gearshift.cli.plan_view import Subject, render
from gearshift.cli.session import Session, pass_session
from gearshift.cli.variant_name import VariantName
from gearshift.domain.device import CPU_DEVICE, Device
from gearshift.domain.errors import ConfigError, GearshiftError
from gearshift.domain.variant import EngineKind
from gearshift.planner import DeviceKind, PlannedDevice, PlanRequest, plan, settled
from gearshift.planner.vllm_rules import NEWEST, is_vllm_version


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


def _of_variant(session: Session, name: str, given: PlanOptions) -> tuple[Subject, PlanAnswer]:
    from gearshift.cli.plan_variant import of_variant  # noqa: PLC0415 - half a second that the flag form need not pay

    return of_variant(session, name, given)


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
    request = with_draft(changed(request, changes_of(given, engine)), read_model)
    facts = stated(loadable(engine, _facts(session, weights)), given.weights_size)
    if not (request.context or facts.context_train):
        raise click.UsageError("the model's files do not say how long its context is: give --context")
    automatic = given.kv_bytes == AUTO
    request = settled(request, facts, automatic_pool=automatic)
    card = gpu or known_card(session, _host_or(kind, box.devices), devices[0].id)
    found = answer(request, facts, plan(request, facts), question_of(given, card), automatic_pool=automatic)
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


def _others_on(box: Box, devices: Sequence[PlannedDevice]) -> dict[str, int]:
    return {device.id: box.others[device.id] for device in devices if box.others.get(device.id)}


def _host_or(kind: str, devices: Sequence[Device]) -> Sequence[Device]:
    """The devices that a ceiling may be of: with ``cpu`` the host's memory, also where there are GPUs."""
    return (Device(CPU_DEVICE, None, "host memory", 0),) if kind == "cpu" else devices
