"""A variant's keys as a recipe keeps them: paths that travel with the lock, and no secrets. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|API_?KEY", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Whether a variable of this name would hold something to keep to oneself."""
    return _SECRET.search(name) is not None


def relative_to(root: Path, path: Path) -> str:
    """The path from the lock's folder, where it is below that; else as it is."""
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


def kept_settings(settings: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """The keys with paths below ``root`` made relative, and secrets in ``env`` left to the environment."""
    kept = {key: _relative(value, root) for key, value in settings.items()}
    if isinstance(env := kept.get("env"), dict):
        kept["env"] = {name: f"${{env:{name}}}" if is_secret(name) else value for name, value in env.items()}
    return kept


def _relative(value: Any, root: Path) -> Any:
    match value:
        case str() if value.startswith(f"{root}/"):
            return relative_to(root, Path(value))
        case dict():
            return {key: _relative(item, root) for key, item in value.items()}
        case list():
            return [_relative(item, root) for item in value]
        case _:
            return value
