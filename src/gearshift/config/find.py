"""Which configuration file is meant when none is named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

FILE_NAME = "gearshift.yaml"


def find_config(cwd: Path, env: Mapping[str, str]) -> Path | None:
    """The first that exists of ``./gearshift.yaml``, ``$XDG_CONFIG_HOME/gearshift/`` and ``/etc/gearshift/``."""
    return next((path for path in _places(cwd, env) if path.is_file()), None)


def _places(cwd: Path, env: Mapping[str, str]) -> Iterator[Path]:
    yield cwd / FILE_NAME
    if folder := env.get("XDG_CONFIG_HOME"):
        yield Path(folder) / "gearshift" / FILE_NAME
    elif home := env.get("HOME"):
        yield Path(home) / ".config" / "gearshift" / FILE_NAME
    yield Path("/etc/gearshift") / FILE_NAME
