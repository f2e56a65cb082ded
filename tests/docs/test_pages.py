"""The documentation against the repository: what a page names must exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_fault_in_the_table_has_its_test() -> None:
    page = (ROOT / "docs/faults.md").read_text()
    named = set(re.findall(r"`(test_\w+)`", page))
    sources = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    missing = [name for name in sorted(named) if f"def {name}(" not in sources]
    assert named
    assert missing == []


def test_every_relative_link_leads_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []


def test_contributing_is_short() -> None:
    assert len((ROOT / "CONTRIBUTING.md").read_text().splitlines()) <= 60


def test_every_page_that_code_or_a_design_names_is_in_the_repository() -> None:
    pages = {page.relative_to(ROOT).as_posix() for page in ROOT.glob("docs/*.md")} | {"README.md", "CONTRIBUTING.md"}
    elsewhere = {"docs/gguf.md"}  # ggml's
    missing = [
        f"{source.relative_to(ROOT)}: {name}"
        for source in (ROOT / "src").rglob("*")
        if source.suffix in {".py", ".md"}
        for name in re.findall(r"(?<!\]\()(?<![\w./-])[A-Za-z][\w/-]*\.md\b", source.read_text())
        if name not in pages | elsewhere and not (source.parent / name).exists()
    ]
    assert missing == []


def test_every_name_in_a_design_is_in_the_code_that_it_tells_of() -> None:
    code = "\n".join(path.read_text() for path in (ROOT / "src/gearshift").rglob("*.py"))
    files = {path.name for folder in ("src", "tests") for path in (ROOT / folder).rglob("*.py")}
    elsewhere = {"ECHILD"}  # the kernel's
    missing = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in (ROOT / "src/gearshift").rglob("design.md")
        for name in re.findall(r"`([A-Za-z_][\w.]*)(?:\([^`]*\))?`", page.read_text())
        if name not in files | elsewhere
        if name.endswith(".py") or not re.search(rf"\b{name.rpartition('.')[2]}\b", code)
    ]
    assert missing == []
