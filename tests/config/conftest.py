"""How the tests of this room read text: as the file `gearshift.yaml` in an empty folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from config.reading import Complaints, Load
from gearshift.config import LoadedConfig, parse_config
from gearshift.domain.errors import ConfigError


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Loads text; keyword ``env`` is the environment."""

    def load_text(text: str, env: Mapping[str, str] | None = None) -> LoadedConfig:
        return parse_config(text, file=tmp_path / "gearshift.yaml", env={"HOME": "/home/me", **(env or {})})

    return load_text


@pytest.fixture
def complaints(load: Load, tmp_path: Path) -> Complaints:
    """Everything a load says about a text, errors and warnings, one a line, without the folder."""

    def complain(text: str, env: Mapping[str, str] | None = None) -> str:
        try:
            problems = load(text, env).warnings
        except ConfigError as error:
            problems = error.problems
        return "\n".join(f"{problem.severity} {problem}" for problem in problems).replace(f"{tmp_path}/", "")

    return complain
