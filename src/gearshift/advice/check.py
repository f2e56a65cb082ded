"""`config check`: each variant's flags held against the engine that would run it, or against the packaged tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from gearshift.advice.weightless import weightless
from gearshift.artifacts import checkpoint_files
from gearshift.config import LoadedConfig, presence
from gearshift.domain.device import CPU_DEVICE, Device
from gearshift.domain.engine import EngineInstall, FlagMap
from gearshift.domain.errors import GearshiftError, Problem
from gearshift.domain.variant import EngineRef, Variant
from gearshift.engines import check, packaged_flags

FindEngine = Callable[[EngineRef], EngineInstall]

NOT_VERIFIED = "not verified against a binary"


def check_config(
    loaded: LoadedConfig, *, find_engine: FindEngine, strict: bool, devices: Sequence[Device] | None = None
) -> tuple[Problem, ...]:
    """Warnings of the load and everything the engines say about the variants, in the order of the file.

    ``find_engine`` raises GearshiftError for an engine that is not installed. GPUs are held against ``devices``, those
    of this box, where they are given. ``strict`` makes each warning an error.
    """
    found = list(_engine_problems(loaded, find_engine))
    if devices is not None:
        found += _gpu_problems(loaded, devices)
    problems = [*loaded.warnings, *_without_echoes(found, loaded)]
    ordered = sorted(problems, key=lambda problem: problem.line or 0)
    return tuple(replace(problem, severity="error") if strict else problem for problem in ordered)


def _without_echoes(problems: Iterable[Problem], loaded: LoadedConfig) -> Iterator[Problem]:
    """A fault that a variant inherits was reported for its base, with the same line."""
    origins = loaded.origins
    seen: set[tuple[int | None, str]] = set()
    for problem in problems:
        origin = origins.get(problem.path)
        inherited = origin is not None and origin.kind == "extends"
        if not (inherited and (problem.line, problem.message) in seen):
            yield problem
        seen.add((problem.line, problem.message))


def _engine_problems(loaded: LoadedConfig, find_engine: FindEngine) -> Iterator[Problem]:
    for variant in loaded.settings.variants().values():
        place = f"models.{variant.model}.variants.{variant.name}"
        flags = packaged_flags(variant.engine.kind, variant.engine.version)
        if variant.engine.kind != "command":
            found = _found_flags(variant.engine, find_engine)
            if isinstance(found, FlagMap):
                flags = found
            else:
                yield _placed(Problem(found, f"{place}.engine", hint=NOT_VERIFIED, severity="warning"), place, loaded)
        for problem in (*check(variant, flags, place), *_without_weights(variant, flags, place)):
            yield _placed(problem, place, loaded)


def _without_weights(variant: Variant, flags: FlagMap, place: str) -> Iterator[Problem]:
    """A folder that is here, and in which vLLM would find no weights; a path that is not here has its warning."""
    folder = Path(variant.weights or "")
    here = variant.engine.kind == "vllm" and folder.is_absolute() and presence(folder) == "there"
    if here and (what := weightless(variant, flags, checkpoint_files(folder))):
        hint = "fetch the weights; GGUF files are for llama.cpp"
        yield Problem(f"{folder}: {what}", f"{place}.weights", hint=hint, severity="warning")


def _gpu_problems(loaded: LoadedConfig, devices: Sequence[Device]) -> Iterator[Problem]:
    """GPUs that are named and not here: the file may be written for another box."""
    here = {device.id for device in devices} | {device.index for device in devices if device.index is not None}
    names = ", ".join(f"{device.index}: {device.name}" for device in devices if device.id != CPU_DEVICE)
    for variant in loaded.settings.variants().values():
        place = f"models.{variant.model}.variants.{variant.name}"
        for gpu in variant.gpus or ():
            if gpu not in here:
                message, hint = f"GPU {gpu} is not on this box", names or "it has none"
                yield _placed(Problem(message, f"{place}.gpus", hint=hint, severity="warning"), place, loaded)


def _found_flags(engine: EngineRef, find_engine: FindEngine) -> FlagMap | str:
    """The engine's own flag map, or why there is none."""
    try:
        install = find_engine(engine)
    except GearshiftError as error:
        return error.message
    return install.flags or f"{engine}: its flags could not be read"


def _placed(problem: Problem, variant: str, loaded: LoadedConfig) -> Problem:
    """With the line of the value at fault, or of the nearest key around it that the file has."""
    path = problem.path
    while path not in loaded.places and len(path) > len(variant):
        path = path.rpartition(".")[0]
    return replace(problem, line=loaded.places.get(path), file=loaded.file)
