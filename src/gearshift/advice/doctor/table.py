"""The table of all checks in the docs: `python -m gearshift.advice.doctor.table docs/doctor.md` refreshes it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gearshift.advice.doctor.check import Check
from gearshift.advice.doctor.examination import BOX_CHECKS, VARIANT_CHECKS

_TABLE = re.compile(r"(<!-- checks -->\n).*?(<!-- end -->)", re.DOTALL)


def refreshed(text: str) -> str:
    """The document with its table made anew."""
    table = "\n".join(_rows())
    return _TABLE.sub(lambda found: f"{found[1]}{table}\n{found[2]}", text)


def _rows() -> Iterator[str]:
    yield "| check | worst | looks for | why |"
    yield "|---|---|---|---|"
    checks: tuple[Check[Any], ...] = (*VARIANT_CHECKS, *BOX_CHECKS)
    for check in checks:
        yield f"| [{check.id}]({_target(check.link)}) | {check.severity} | {check.looks_for} | {check.why} |"


def _target(link: str) -> str:
    """Pages of ours are beside the table."""
    return link.removeprefix("docs/")


def main(files: list[str]) -> None:
    """Rewrite the table in the files."""
    for file in map(Path, files):
        file.write_text(refreshed(file.read_text()))


if __name__ == "__main__":
    main(sys.argv[1:])
