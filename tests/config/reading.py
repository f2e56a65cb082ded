"""What this room's tests read: the types of the fixtures, and a file of one model."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent

from gearshift.config import LoadedConfig

Load = Callable[..., LoadedConfig]
Complaints = Callable[..., str]


def one_model(variants: str) -> str:
    """A file with one model `m` whose variants are given, each on its own line from line 4 on."""
    lines = [f"      {line}" for line in dedent(variants).strip().splitlines()]
    return "\n".join(["models:", "  m:", "    variants:", *lines])
