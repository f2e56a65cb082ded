"""The resolved configuration as YAML, each value followed by where it came from; secrets are left out."""

from __future__ import annotations

from collections.abc import Iterator

from gearshift.config.keypath import KeyPath
from gearshift.config.loaded import LoadedConfig, Origin
from gearshift.config.writing import flow


def show(loaded: LoadedConfig) -> str:
    """The file that would load to the same settings with no `defaults:` and no `extends:`.

    Placeholders such as ``${env:NAME}`` stay as written; a redacted secret has to be filled in again.
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
    return f"{indent}{flow(path[-1])}: {flow(origin.value)}  # {origin}"
