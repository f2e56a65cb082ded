"""Looks at this box and has a first configuration written for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gearshift.advice.starter import find_gguf, starter_config
from gearshift.cli.session import Session
from gearshift.hardware import open_memory
from gearshift.toolchain import Toolchain

MOST_FILES = 12  # a first configuration is to be read; more files are one line each to add


def starter_text(session: Session) -> str:
    """A `gearshift.yaml` with what was found: engines, GGUF files below the usual folders, devices."""
    toolchain = Toolchain(session.paths, session.env)
    devices = open_memory(session.env).devices()
    return starter_config(toolchain.installed(), find_gguf(_folders(session), MOST_FILES), devices)


def _folders(session: Session) -> Iterator[Path]:
    """Where people keep weights: beside the configuration, `~/models`, what llama.cpp and the hub client fetched."""
    home = Path(session.env.get("HOME", "/"))
    cache = Path(session.env.get("XDG_CACHE_HOME") or home / ".cache")
    hub = session.env.get("HF_HUB_CACHE") or Path(session.env.get("HF_HOME") or cache / "huggingface") / "hub"
    yield from (Path.cwd() / "models", home / "models", cache / "llama.cpp", Path(hub), session.paths.models)
