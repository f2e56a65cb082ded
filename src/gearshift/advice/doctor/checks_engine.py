"""Checks of the engine itself: there, of a version the facts cover, with flags it takes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gearshift.advice.doctor.case import Case
from gearshift.advice.doctor.check import Check, Registered
from gearshift.advice.doctor.finding import Severity, Sighting
from gearshift.engines.vllm_history import NEWEST, OLDEST

ENGINE: list[Check[Case]] = []
_check = Registered(ENGINE).add
_MANGLED = re.compile(r"\\_|\\\\")


@_check(
    "engine-missing",
    "error",
    "an engine that is not installed, or does not run",
    why="The variant cannot be started.",
    fix="gearshift engine install llama.cpp (or vllm), or name the engine's path",
    link="docs/engines.md",
)
def _engine_missing(case: Case) -> Iterator[Sighting]:
    if case.kind != "command" and case.install is None:
        yield Sighting(case.engine_trouble or f"{case.variant.engine} was not found", "engine", case.engine_fix)


@_check(
    "engine-version",
    "note",
    f"vLLM outside 0.{OLDEST} to 0.{NEWEST}, or an engine that does not tell its version",
    why="What is known of flags, defaults and bugs by version is guessed for this one.",
    fix="trust the engine's own messages more than ours, or use a version that is covered",
    link="docs/engines.md",
)
def _engine_version(case: Case) -> Iterator[Sighting]:
    if case.install is None or case.kind == "command":
        return
    if case.install.version is None:
        yield Sighting(f"{case.kind} at {case.install.path} does not tell its version", "engine")
    elif case.kind == "vllm" and not _covered(case.install.version):
        yield Sighting(f"vLLM {case.install.version} is not one that was looked into", "engine")


def _covered(version: str) -> bool:
    major, _, rest = version.partition(".")
    minor = rest.partition(".")[0]
    return major == "0" and minor.isdigit() and OLDEST <= int(minor) <= NEWEST


@_check(
    "engine-flags",
    "error",
    "flags, values, variables and speculation keys that this engine version does not take, with the new name",
    why="Both engines refuse to start on a flag they do not know.",
    fix="remove or correct it",
    link="docs/engines.md",
)
def _engine_flags(case: Case) -> Iterator[Sighting]:
    prefix = f"models.{case.variant.model}.variants.{case.variant.name}."
    for problem in case.problems:
        if case.install is None and problem.path == f"{prefix}engine":
            continue  # engine-missing says it
        severity: Severity = "error" if problem.severity == "error" else "warning"
        yield Sighting(problem.message, problem.path.removeprefix(prefix), problem.hint, severity)


@_check(
    "pasted-escapes",
    "warning",
    "backslashes that a web page put before underscores or doubled",
    why="Commands copied from a formatted page carry escapes that the engine takes literally.",
    fix="remove the backslashes",
    link="docs/doctor.md",
)
def _pasted_escapes(case: Case) -> Iterator[Sighting]:
    for name, value in {**case.variant.args, **case.variant.env}.items():
        if _MANGLED.search(f"{name}={value}"):
            place = "args" if name in case.variant.args else "env"
            yield Sighting(f"{name} holds an escaped character: {value}", f"{place}.{name}")
