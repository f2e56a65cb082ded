"""The types of this room's fixtures."""

from __future__ import annotations

from collections.abc import Callable

from gearshift.config import LoadedConfig

Load = Callable[..., LoadedConfig]
Complaints = Callable[..., str]
