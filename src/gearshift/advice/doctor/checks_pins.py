"""Checks against a lock: what was pinned, and what is here now."""

from __future__ import annotations

from collections.abc import Iterator

from gearshift.advice.doctor.case import Case
from gearshift.advice.doctor.check import Check, Registered
from gearshift.advice.doctor.finding import Sighting

PINS: list[Check[Case]] = []
_check = Registered(PINS).add
_PAGE = "docs/recipes.md"


@_check(
    "pin-template",
    "warning",
    "a chat template that is not the pinned one",
    why="Prompts are built otherwise than when the recipe was made: answers, tools and thinking may differ.",
    fix="restore the pinned template (gearshift pull), or lock anew if the change is meant",
    link=_PAGE,
)
def _pin_template(case: Case) -> Iterator[Sighting]:
    pinned = case.pins.template_sha256 if case.pins else None
    if pinned and case.template and case.template.sha256 != pinned:
        yield Sighting(f"pinned is sha256 {pinned}, found {case.template.sha256}", "template")


@_check(
    "pin-engine",
    "warning",
    "an engine of another version, or another binary, than the pinned one",
    why="Flags, memory and speed change between versions: measurements of the recipe do not carry over.",
    fix="gearshift engine install KIND==VERSION, or lock anew",
    link=_PAGE,
)
def _pin_engine(case: Case) -> Iterator[Sighting]:
    if case.pins is None or case.install is None:
        return
    pinned, digest = case.pins.engine_version, case.pins.engine_digest
    if pinned and case.install.version != pinned:
        yield Sighting(
            f"pinned is {case.kind} {pinned}, found {case.install.version or 'an unknown version'}", "engine"
        )
    elif digest and case.install.digest and case.install.digest != digest:
        yield Sighting("same version as pinned, another binary", "engine", severity="note")


@_check(
    "pin-files",
    "error",
    "files of a lock that are missing or of another size",
    why="The recipe would run on other weights than it names; gearshift verify compares every byte.",
    fix="gearshift pull fetches what the lock names",
    link=_PAGE,
)
def _pin_files(case: Case) -> Iterator[Sighting]:
    for name, promised in (case.pins.sizes if case.pins else {}).items():
        found = case.pins.found.get(name) if case.pins else None
        if found is None:
            yield Sighting(f"{name} is not there", "weights")
        elif found != promised:
            yield Sighting(f"{name} has {found} bytes, {promised} are pinned", "weights")
