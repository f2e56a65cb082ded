"""Where Gearshift keeps things. Pure: environment in, paths out; nothing is created here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Paths:
    """Every place on disk that Gearshift writes to. ``GEARSHIFT_HOME`` moves all of them at once."""

    state: Path  # lock, admin socket, state file, database
    engines: Path  # managed engines, one folder each
    cache: Path  # build and download caches, flag maps
    models: Path  # weights that Gearshift itself fetched

    @property
    def admin_socket(self) -> Path:
        return self.state / "admin.sock"

    @property
    def lock(self) -> Path:
        return self.state / "lock"

    @property
    def children(self) -> Path:
        """The state file of running process trees, read after a crash to reap what survived."""
        return self.state / "children.json"

    @property
    def calibrations(self) -> Path:
        """How far plans were from what earlier starts really took."""
        return self.state / "calibrations.json"

    @property
    def bandwidths(self) -> Path:
        """Memory bandwidths that were measured on this box."""
        return self.state / "bandwidths.json"

    @property
    def logs(self) -> Path:
        return self.state / "logs"

    @property
    def database(self) -> Path:
        return self.state / "gearshift.db"


def variant_logs(logs: Path, variant: str) -> Path:
    """The folder of one variant's logs below `Paths.logs`; a model's name may hold slashes."""
    return logs / variant.replace("/", "_")


def launch_folder(logs: Path, variant: str) -> Path:
    """A variant's private folder: adapters name it in argv and environment, the supervisor fills it at the launch."""
    return variant_logs(logs, variant) / "home"


def resolve_paths(env: Mapping[str, str]) -> Paths:
    """Paths from ``GEARSHIFT_HOME``, else XDG. ``GEARSHIFT_ENGINES`` alone moves the engines folder."""
    home = Path(env.get("HOME", "/"))
    if override := env.get("GEARSHIFT_HOME"):
        state, cache = Path(override), Path(override) / "cache"
    else:
        state = Path(env.get("XDG_STATE_HOME") or home / ".local/state") / "gearshift"
        cache = Path(env.get("XDG_CACHE_HOME") or home / ".cache") / "gearshift"
    engines = Path(env.get("GEARSHIFT_ENGINES") or state / "engines")
    return Paths(state=state, engines=engines, cache=cache, models=state / "models")
