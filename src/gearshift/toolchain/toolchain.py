"""The toolchain: finding, listing, installing and removing engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from gearshift.domain.engine import EngineInstall, FlagMap
from gearshift.domain.errors import GearshiftError
from gearshift.domain.paths import Paths
from gearshift.domain.variant import EngineKind, EngineRef
from gearshift.toolchain.build_llamacpp import DEFAULT_BUILD, plan_llamacpp
from gearshift.toolchain.build_vllm import DEFAULT_VERSION, plan_vllm
from gearshift.toolchain.managed import managed, matching, plain_version, read_record, remove_folder, write_record
from gearshift.toolchain.own import at_path, on_path
from gearshift.toolchain.probe import digest, kept_help, llamacpp_version, read_flags
from gearshift.toolchain.run import exclusive, run_plan
from gearshift.toolchain.steps import InstallPlan, Step, StepProgress

Accelerator = Literal["cpu", "cuda"]
DEFAULTS: Mapping[EngineKind, str] = {"llama.cpp": DEFAULT_BUILD, "vllm": DEFAULT_VERSION}


@dataclass(frozen=True, slots=True)
class Toolchain:
    """Engines of this box: those Gearshift manages under ``paths.engines`` and the user's own."""

    paths: Paths
    env: Mapping[str, str]

    def find(self, ref: EngineRef) -> EngineInstall:
        """The installation a reference means: a path, a pinned managed version, the newest managed one, or PATH's.

        The first look at a vLLM of the user's own runs its ``--help``, which takes 10 s and more; the answer is kept.
        Raises GearshiftError with the command that installs it when there is none.
        """
        if ref.kind == "command":
            none = FlagMap("command", None, {}, verified=True)
            return EngineInstall("command", None, (), Path("/"), managed=False, flags=none)
        if ref.path is not None:
            return _pinned(at_path(ref.kind, ref.path, self.env, self._flags), ref)
        found = [item for item in managed(self.paths.engines) if item.kind == ref.kind and _is(item, ref.version)]
        own = None if found else on_path(ref.kind, self.env, self._flags)
        if own is not None and _is(own, ref.version):
            found = [own]
        if not found:
            raise _missing(ref)
        return found[0]

    def installed(self) -> tuple[EngineInstall, ...]:
        """Managed engines, newest first, then those on PATH."""
        kinds: tuple[EngineKind, ...] = ("llama.cpp", "vllm")
        own = (on_path(kind, self.env, self._flags) for kind in kinds)
        return (*managed(self.paths.engines), *(install for install in own if install))

    def plan_install(
        self, kind: EngineKind, version: str | None = None, *, accelerator: Accelerator = "cpu"
    ) -> tuple[Step, ...]:
        """The commands ``install`` would run, in order."""
        return self._plan(kind, version, accelerator).steps

    def install(
        self,
        kind: EngineKind,
        version: str | None = None,
        *,
        accelerator: Accelerator = "cpu",
        progress: Callable[[StepProgress], None] = lambda _: None,
    ) -> EngineInstall:
        """Install a version (the default one for None) and return it; at once when it is there already.

        Raises GearshiftError naming the step that failed; what was built so far is used by the next attempt.
        """
        with exclusive(self.paths.cache / "install.lock", progress):
            plan = self._plan(kind, version, accelerator)
            if present := read_record(plan.target):
                return present
            run_plan(plan, self.env, self.paths.cache / "logs" / f"install-{plan.target.name}.log", progress)
            progress(StepProgress("read the engine's flags"))
            install = self._verified(kind, version or DEFAULTS[kind], plan)
            write_record(plan.target, install, kept_help(install.version, install.command, self._flags))
            return install

    def remove(self, kind: EngineKind, version: str) -> tuple[Path, ...]:
        """Remove the managed engines of a version; returns their folders. Raises GearshiftError if there is none."""
        found = matching(self.paths.engines, kind, version)
        if not found:
            message = f"{kind} {version} is not among the managed engines in {self.paths.engines}"
            raise GearshiftError(message, hint="see gearshift engine list")
        for install in found:
            remove_folder(install.path)
        return tuple(install.path for install in found)

    @property
    def _flags(self) -> Path:
        return self.paths.cache / "flags"

    def _plan(self, kind: EngineKind, version: str | None, accelerator: Accelerator) -> InstallPlan:
        if kind == "command":
            message = "a command engine is started by its own command; there is nothing to install"
            raise GearshiftError(message, hint="install llama.cpp or vllm")
        wanted = plain_version(version or DEFAULTS[kind])
        if kind == "vllm":
            return plan_vllm(self.paths, wanted, accelerator)
        return plan_llamacpp(self.paths, self.env, wanted, accelerator)

    def _verified(self, kind: EngineKind, version: str, plan: InstallPlan) -> EngineInstall:
        """The new engine as it answers for itself. Raises GearshiftError when it does not run."""
        if kind == "vllm":
            found = at_path(kind, plan.target, self.env, self._flags)
            return replace(found, managed=True, command=plan.command)
        binary = Path(plan.command[0])
        build = llamacpp_version(binary, self.env) or plain_version(version)
        flags = read_flags(kind, build, plan.command, self.env, self._flags)
        return EngineInstall(kind, build, plan.command, plan.target, managed=True, flags=flags, digest=digest(binary))


def _is(install: EngineInstall, version: str | None) -> bool:
    return version is None or install.version == plain_version(version)


def _pinned(install: EngineInstall, ref: EngineRef) -> EngineInstall:
    """A path and a version together: the version is a promise about the path. An unnumbered build cannot break it."""
    if install.version is not None and not _is(install, ref.version):
        message = f"{ref.kind} at {ref.path} is version {install.version}, not {ref.version}"
        raise GearshiftError(message, hint="correct the version, or remove it")
    return install


def _missing(ref: EngineRef) -> GearshiftError:
    pin = f"=={ref.version}" if ref.version else ""
    message = f"{ref.kind}{f' {ref.version}' if ref.version else ''} is not installed"
    return GearshiftError(message, hint=f"gearshift engine install {ref.kind}{pin}, or give the engine's path")
