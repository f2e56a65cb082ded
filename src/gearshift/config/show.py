"""The resolved configuration as YAML, each value followed by where it came from; secrets are left out."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gearshift.config.keypath import KeyPath
from gearshift.config.loaded import LoadedConfig, Origin
from gearshift.config.writing import flow

REDACTED = "(redacted)"

_SECRET = re.compile(r"(^|[-_])(api[-_]?key|keys?|token|secret|password|passwd|credentials?)$", re.IGNORECASE)


def show(loaded: LoadedConfig) -> str:
    """The file that would load to the same settings with no `defaults:` and no `extends:`.

    Placeholders such as ``${env:NAME}`` stay as written, so that their values are not printed.
    """
    lines: list[str] = []
    above: KeyPath = ()
    for path, origin in loaded.leaves.items():
        if origin.value is None and origin.kind == "default":
            continue
        lines.extend(_headings(above, path))
        lines.append(_line(path, origin))
        above = path
    return "\n".join(lines) + "\n"


def _headings(above: KeyPath, path: KeyPath) -> Iterator[str]:
    """The sections that open between one leaf and the next."""
    shared = 0
    while shared < len(path) - 1 and above[: shared + 1] == path[: shared + 1]:
        shared += 1
    for depth in range(shared, len(path) - 1):
        yield f"{'  ' * depth}{flow(path[depth])}:"


def _line(path: KeyPath, origin: Origin) -> str:
    indent = "  " * (len(path) - 1)
    if origin.value is None and origin.kind == "engine":
        return f"{indent}# {path[-1]}: the engine's choice"
    value = REDACTED if _is_secret(path, origin.value) else origin.value
    return f"{indent}{flow(path[-1])}: {flow(value)}  # {origin}"


def _is_secret(path: KeyPath, value: object) -> bool:
    named = len(path) > 1 and path[-2] in {"args", "env"} and _SECRET.search(str(path[-1])) is not None
    return named and "${env:" not in str(value)
