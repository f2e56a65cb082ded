"""Managed engines on disk: one folder each under ``engines``, complete when its record is there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from gearshift.domain.engine import EngineInstall
from gearshift.domain.variant import EngineKind
from gearshift.store.files import replace_file
from gearshift.toolchain.probe import keep_help, load_flags

_RECORD = "gearshift.json"
_HELP = "help.txt"


def write_record(folder: Path, install: EngineInstall, help_text: str | None) -> None:
    """Declare a folder complete. Paths inside it are kept relative, so that ``engines`` may be moved."""
    command = [_relative(word, folder) for word in install.command]
    if help_text is not None:
        keep_help(folder / _HELP, help_text)
    record = {"kind": install.kind, "version": install.version, "command": command, "digest": install.digest}
    replace_file(folder / _RECORD, json.dumps(record, indent=2) + "\n")


def read_record(folder: Path) -> EngineInstall | None:
    """The engine in a managed folder; None when it is incomplete."""
    try:
        record = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
        kind, version, command = record["kind"], record["version"], record["command"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    argv = (str(folder / command[0]), *command[1:])
    flags = load_flags(kind, version, folder / _HELP)
    return EngineInstall(kind, version, argv, folder, managed=True, flags=flags, digest=record.get("digest"))


def managed(engines: Path) -> tuple[EngineInstall, ...]:
    """Every complete managed engine, newest version first; a CUDA build before a CPU build of the same version."""
    found = [install for folder in _folders(engines) if (install := read_record(folder))]
    return tuple(sorted(found, key=lambda install: (version_key(install.version), install.path.name), reverse=True))


def remove_folder(folder: Path) -> None:
    """Take an engine away: out of sight at once, then off the disk."""
    aside = folder.with_name(f".{folder.name}.removed")
    shutil.rmtree(aside, ignore_errors=True)
    folder.rename(aside)
    shutil.rmtree(aside)


def matching(engines: Path, kind: EngineKind, version: str) -> tuple[EngineInstall, ...]:
    """The managed engines of one kind and version, however that is written."""
    wanted = (kind, plain_version(version))
    return tuple(install for install in managed(engines) if (install.kind, install.version) == wanted)


def plain_version(version: str) -> str:
    """A version as engines are recorded under it: people also write the tags, b11434 and v0.32.0."""
    return version.removeprefix("b").removeprefix("v")


def version_key(version: str | None) -> tuple[int, ...]:
    """Versions in their order; anything that is not a number counts as 0."""
    return tuple(int(part) if part.isdigit() else 0 for part in (version or "0").split("."))


def _folders(engines: Path) -> Iterator[Path]:
    if engines.is_dir():
        yield from (folder for folder in engines.iterdir() if folder.is_dir() and not folder.name.startswith("."))


def _relative(word: str, folder: Path) -> str:
    path = Path(word)
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else word
