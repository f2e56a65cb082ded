"""The table of published readings against the tests that it names, and against the reports where they are here."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from gearshift.advice.doctor import BOX_CHECKS, VARIANT_CHECKS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/readings.md").read_text()
REPORTS = Path(os.environ.get("GEARSHIFT_SAMPLES") or ROOT.parent / "shared" / "samples").parent
ROWS = [line.split(" | ") for line in PAGE.splitlines() if re.match(r"\| [RDVLC]\d*", line)]
DEFINED = {
    name for path in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)\(", path.read_text())
}
CHECKS = {check.id for check in VARIANT_CHECKS} | {check.id for check in BOX_CHECKS}
here = pytest.mark.skipif(not (REPORTS / "field-reports.md").is_file(), reason="the reports are not here")


def named() -> set[str]:
    """Every id that the table holds; a range names all between its ends."""
    cells = " ".join(row[0] for row in ROWS)
    ends = re.findall(r"([A-Z]\d*[- ]?T?)(\d+) to \1(\d+)", cells)
    between = {f"{stem}{n:0{len(low)}d}" for stem, low, high in ends for n in range(int(low), int(high) + 1)}
    return between | set(re.findall(r"[A-Z]\d*(?:[- ]?T?\d+)?(?:\.\d+)?", cells))


@pytest.mark.parametrize("row", ROWS, ids=[row[0].strip("| ") for row in ROWS])
def test_a_reading_names_tests_and_checks_that_exist(row: list[str]) -> None:
    tests = set(re.findall(r"`(test_\w+)`", row[-1]))
    checks = set(re.findall(r"doctor: `([\w-]+)`", row[-1]))
    assert tests | checks
    assert [name for name in sorted(tests) if name not in DEFINED] == []
    assert checks <= CHECKS


@here
def test_every_reading_trap_and_contradiction_of_the_reports_is_in_the_table() -> None:
    text = (REPORTS / "field-reports.md").read_text()
    wanted = set(re.findall(r"\bR\d-\d\d\b", text))
    for number, report in enumerate(re.split(r"^## R\d\. ", text, flags=re.MULTILINE)[1:], start=1):
        traps = report.partition("### Traps reported")[2].partition("###")[0]
        wanted |= {f"R{number}-T{trap}" for trap in re.findall(r"^(\d+)\. ", traps, re.MULTILINE)}
    apart = text.partition("## Where the reports disagree")[2].partition("## What these people")[0]
    wanted |= {f"D{row}" for row in re.findall(r"^\| (\d+) \|", apart, re.MULTILINE)}
    assert len(wanted) > 100
    assert sorted(wanted - named()) == []


@here
@pytest.mark.parametrize(("letter", "page"), [("V", "vllm"), ("L", "llamacpp"), ("C", "ceiling")])
def test_every_chapter_of_the_notes_has_its_readings_or_holds_none(letter: str, page: str) -> None:
    text = (REPORTS / f"reference/{page}.md").read_text()
    numbers = re.findall(r"^#{2,3} (\d+(?:\.\d+)?)\.? ", text, re.MULTILINE)
    parts = {number.partition(".")[0] for number in numbers if "." in number}
    chapters = {f"{letter}{number}" for number in numbers if number not in parts}
    without = set(re.findall(r"\b[VLC]\d+(?:\.\d)?\b", PAGE.rpartition("Without a test")[2]))
    assert sorted(chapters - named() - without) == []
    assert len(chapters) > 5


@here
def test_every_public_log_and_dump_is_in_the_table() -> None:
    wanted = {f"L {path.name[:2]}" for path in (REPORTS / "samples/llamacpp-logs").glob("0*.log")}
    wanted |= {f"D {path.name[:2]}" for path in (REPORTS / "samples/gguf-dumps").glob("0*")}
    assert sorted(wanted - named()) == []
