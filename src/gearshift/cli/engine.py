"""`gearshift engine`: install, list and remove engines."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, cast, get_args

import click

from gearshift.cli.output import table
from gearshift.cli.session import Session, pass_session
from gearshift.domain.engine import EngineInstall
from gearshift.domain.errors import GearshiftError
from gearshift.domain.units import format_duration
from gearshift.domain.variant import EngineKind, EngineRef
from gearshift.toolchain import DEFAULTS, Accelerator, StepProgress, Toolchain

COLUMNS = ("ENGINE", "VERSION", "MANAGED", "FLAGS", "PATH")


class EngineSpec(click.ParamType[EngineRef]):
    """`llama.cpp`, `llama.cpp==11434`, `vllm==0.32.0`."""

    name = "engine"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> EngineRef:
        if isinstance(value, EngineRef):
            return value
        kind, equals, version = str(value).partition("==")
        if kind not in DEFAULTS or (equals and not version):
            self.fail(f"{value!r} is not an engine; write for example llama.cpp or vllm==0.32.0", param, ctx)
        return EngineRef(cast("EngineKind", kind), version or None)


def _engine_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.argument("engine", type=EngineSpec(), metavar="ENGINE[==VERSION]")(function)


@click.group("engine")
def command() -> None:
    """Install, list and remove engines."""


@command.command("install")
@_engine_argument
@click.option("--cpu", "accelerator", flag_value="cpu", help="For a box without a GPU (the default).", default=True)
@click.option("--cuda", "accelerator", flag_value="cuda", help="For NVIDIA GPUs.")
@click.option("--dry-run", is_flag=True, help="Print the commands instead of running them.")
@pass_session
def install(session: Session, engine: EngineRef, accelerator: str, *, dry_run: bool) -> None:
    """Install an engine, pinned and beside others.

    llama.cpp is built from source, vLLM goes into an environment of its own; both below the state folder. Without a
    version it is the one that this release of Gearshift was tested with.
    """
    toolchain = Toolchain(session.paths, session.env)
    target = _accelerator(accelerator)
    if dry_run:
        for step in toolchain.plan_install(engine.kind, engine.version, accelerator=target):
            session.output.write(f"# {step.title}\n{step}")
        return
    began = time.monotonic()
    with session.output.progress() as show:

        def told(progress: StepProgress) -> None:
            show(progress.title, progress.fraction)

        installed = toolchain.install(engine.kind, engine.version, accelerator=target, progress=told)
    session.output.say(f"the engine is in place ({format_duration(time.monotonic() - began)})")
    session.output.write(f"{installed.kind} {installed.version or '(version unknown)'} {installed.path}")


def _accelerator(text: str) -> Accelerator:
    known: tuple[Accelerator, ...] = get_args(Accelerator)
    return next(name for name in known if name == text)


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON document: a list of engines.")
@pass_session
def list_(session: Session, *, as_json: bool) -> None:
    """Show every engine found: managed ones, and those on PATH.

    FLAGS is how many flags its own help lists; they are what `args` is checked against.
    """
    with session.output.progress() as show:
        show("looking for engines")
        found = Toolchain(session.paths, session.env).installed()
    session.output.emit([_row(install) for install in found], as_json=as_json, human=lambda: _table(found))
    if not found:
        session.output.say("no engine was found; install one: gearshift engine install llama.cpp")


def _row(install: EngineInstall) -> dict[str, Any]:
    return {
        "engine": install.kind,
        "version": install.version,
        "managed": install.managed,
        "command": list(install.command),
        "path": str(install.path),
        "flags": _flag_count(install),
        "digest": install.digest,
    }


def _flag_count(install: EngineInstall) -> int | None:
    """How many flags it was found to take; names of the same flag count once."""
    return None if install.flags is None else len({flag.name for flag in install.flags.flags.values()})


def _table(found: Sequence[EngineInstall]) -> str:
    if not found:
        return ""
    return table(COLUMNS, [_cells(install) for install in found])


def _cells(install: EngineInstall) -> list[str]:
    flags = _flag_count(install)
    return [
        install.kind,
        install.version or "-",
        "yes" if install.managed else "no",
        "-" if flags is None else str(flags),
        str(install.path),
    ]


@command.command("remove")
@_engine_argument
@pass_session
def remove(session: Session, engine: EngineRef) -> None:
    """Remove a managed engine; the version must be named."""
    if engine.version is None:
        msg = f"which version of {engine.kind}?"
        raise GearshiftError(msg, hint=f"name it: gearshift engine remove {engine.kind}==VERSION; see engine list")
    for path in Toolchain(session.paths, session.env).remove(engine.kind, engine.version):
        session.output.write(str(path))
