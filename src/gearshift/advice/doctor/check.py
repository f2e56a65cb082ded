"""A check: what it looks for, why it matters, what to do, where it is discussed, and the pure function that looks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from gearshift.advice.doctor.case import Case, Setup
from gearshift.advice.doctor.finding import Finding, Severity, Sighting

Subject = TypeVar("Subject", Case, Setup)


@dataclass(frozen=True, slots=True)
class Check(Generic[Subject]):
    """One check over one subject. ``looks_for`` is its line in the documentation."""

    id: str
    severity: Severity
    looks_for: str
    why: str
    fix: str
    link: str
    look: Callable[[Subject], Iterator[Sighting]]

    def findings(self, subject: Subject, place: Callable[[str], str]) -> Iterator[Finding]:
        """Everything it sees; ``place`` turns a sighting's place into one that a person can go to."""
        for seen in self.look(subject):
            severity, fix = seen.severity or self.severity, seen.fix or self.fix
            yield Finding(self.id, severity, seen.what, self.why, fix, self.link, place(seen.place))


@dataclass(frozen=True, slots=True)
class Registered(Generic[Subject]):
    """Checks in the order they were written down; ``add`` is a decorator."""

    checks: list[Check[Subject]]

    def add(
        self, name: str, severity: Severity, looks_for: str, *, why: str, fix: str, link: str
    ) -> Callable[[Callable[[Subject], Iterator[Sighting]]], Callable[[Subject], Iterator[Sighting]]]:
        """Make the function below a check."""

        def register(look: Callable[[Subject], Iterator[Sighting]]) -> Callable[[Subject], Iterator[Sighting]]:
            self.checks.append(Check(name, severity, looks_for, why, fix, link, look))
            return look

        return register


def run(checks: Iterable[Check[Subject]], subject: Subject, place: Callable[[str], str]) -> Iterator[Finding]:
    """The findings of every check, in the order of the checks."""
    for check in checks:
        yield from check.findings(subject, place)
