"""Every check over every case: findings, worst first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from gearshift.advice.doctor.case import Case, Setup
from gearshift.advice.doctor.check import Check, run
from gearshift.advice.doctor.checks_box import BOX
from gearshift.advice.doctor.checks_engine import ENGINE
from gearshift.advice.doctor.checks_gpus import GPUS
from gearshift.advice.doctor.checks_llamacpp import LLAMACPP
from gearshift.advice.doctor.checks_model import MODEL
from gearshift.advice.doctor.checks_pins import PINS
from gearshift.advice.doctor.checks_template import TEMPLATE
from gearshift.advice.doctor.checks_vllm import VLLM
from gearshift.advice.doctor.finding import SEVERITIES, Finding

VARIANT_CHECKS: tuple[Check[Case], ...] = (*ENGINE, *MODEL, *TEMPLATE, *VLLM, *LLAMACPP, *GPUS, *PINS)
BOX_CHECKS: tuple[Check[Setup], ...] = tuple(BOX)


def examine(
    cases: Iterable[Case], setup: Setup, *, file: Path | None = None, lines: Mapping[str, int] | None = None
) -> tuple[Finding, ...]:
    """All findings: errors, then warnings, then notes, each in the order of the variants and of the checks.

    What is the same of several variants, such as of one file of weights, is one finding with all its places.

    ``lines`` are the lines of ``file`` by dotted path; findings about a variant are placed by them.
    """
    found = [
        finding
        for case in cases
        for finding in run(
            VARIANT_CHECKS, case, _placing(f"models.{case.variant.model}.variants.{case.variant.name}", file, lines)
        )
    ]
    found += run(BOX_CHECKS, setup, _placing("", file, lines))
    return tuple(sorted(_together(found), key=lambda finding: SEVERITIES.index(finding.severity)))


def _together(found: Iterable[Finding]) -> Iterator[Finding]:
    """Equal findings once, where the first of them stood, with the places of all."""
    places: dict[Finding, list[str]] = {}
    for finding in found:
        places.setdefault(replace(finding, place=""), []).append(finding.place)
    for finding, where in places.items():
        yield replace(finding, place="; ".join(dict.fromkeys(where)))


def _placing(base: str, file: Path | None, lines: Mapping[str, int] | None) -> Callable[[str], str]:
    """Turns a place below ``base`` into ``file:line: path``, with the line of the nearest key that the file has."""
    known = lines or {}

    def placed(relative: str) -> str:
        path = ".".join(part for part in (base, relative) if part)
        nearest = path
        while nearest and nearest not in known:
            nearest = nearest.rpartition(".")[0]
        return f"{file}:{known[nearest]}: {path}" if file and nearest else path

    return placed
