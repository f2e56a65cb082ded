"""A small environment of our own for pip, cmake and ninja, so that Gearshift's own needs none of them."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from gearshift.domain.paths import Paths
from gearshift.toolchain.steps import Step


def tools_folder(paths: Paths) -> Path:
    """Where the environment is; its programs are in ``bin``."""
    return paths.cache / "build-tools"


def pip_of(paths: Paths) -> str:
    """The environment's pip."""
    return str(tools_folder(paths) / "bin" / "pip")


def pip_step(paths: Paths) -> Step:
    """Make the environment; pip is the last thing venv puts into it."""
    folder = tools_folder(paths)
    return Step("make the tool environment", (sys.executable, "-m", "venv", str(folder)), done=folder / "bin" / "pip")


def compile_steps(paths: Paths, env: Mapping[str, str]) -> tuple[Step, ...]:
    """The environment, with cmake and ninja where the box has none."""
    missing = tuple(name for name in ("cmake", "ninja") if not shutil.which(name, path=env.get("PATH")))
    if not missing:
        return (pip_step(paths),)
    there = tools_folder(paths) / "bin" / missing[-1]
    return (pip_step(paths), Step(f"get {' and '.join(missing)}", (pip_of(paths), "install", *missing), done=there))
