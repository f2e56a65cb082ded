"""What the doctor says: one finding, and how bad it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")  # worst first


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to act on, or to know. ``link`` is a public thread, or a page of our own docs.

    ``place`` is where it is: ``gearshift.yaml:12: models.m.variants.v.args.split-mode``, or a part of the box; several
    places of the same are separated by ``; ``.
    """

    id: str
    severity: Severity
    what: str
    why: str
    fix: str
    link: str | None
    place: str


@dataclass(frozen=True, slots=True)
class Sighting:
    """What a check saw. ``place`` is relative to what it looked at; the rest replaces the check's own where given."""

    what: str
    place: str = ""
    fix: str | None = None
    severity: Severity | None = None
