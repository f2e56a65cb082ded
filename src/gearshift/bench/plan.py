"""Experiments as data: what each cell measures. Pure; running is another module's business."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

from gearshift.bench.bodies import Dialect
from gearshift.bench.workload.corpus import Kind

CacheIntent = Literal["cold", "warm"]
DEFINITIONS = 1  # raised when the meaning of a figure changes, so that old cells are neither reused nor compared


@dataclass(frozen=True, slots=True)
class CellPlan:
    """One point of one question. Lengths in tokens; ``depth`` is the whole prompt, chat template not counted."""

    experiment: str
    concurrency: int = 1
    depth: int = 512
    output: int = 128
    requests: int = 4  # a trial
    trials: int = 3
    setting: str = ""  # what this cell sets apart: "off", "mtp 2", "cached", a variant
    model: str | None = None  # another model than the target's: a variant behind a Gearshift
    kind: Kind | Literal["ids", "file"] = "prose"  # a kind of text, random token ids, or the prompts of ``file``
    file: str | None = None
    dialect: Dialect = "chat"
    exact: bool = True
    cache: CacheIntent = "cold"
    shared_prefix: int = 0  # tokens that all prompts of the cell begin with; for cache "warm"
    needles: tuple[float, ...] = ()
    burst: bool = False  # a trial's streams start at once, not spread over one time to first token
    rate: float | None = None  # requests a second of an open loop; None = closed loop
    seed: int = 0
    extra: Mapping[str, object] = field(default_factory=dict)  # further keys of every body

    def key(self, server: Mapping[str, object]) -> str:
        """A content address: the same plan against the same server, by the same definitions, is the same cell."""
        content = {"plan": asdict(self), "server": dict(server), "definitions": DEFINITIONS}
        return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()

    @property
    def words(self) -> str:
        """The cell in a few words."""
        streams = f"{self.concurrency} stream{'s' if self.concurrency != 1 else ''}"
        depth = f"{self.depth} tokens deep" if self.kind != "file" else "a file's prompts"
        parts = (self.setting, depth, streams if self.rate is None else "")
        return ", ".join(part for part in parts if part)

    @property
    def tokens(self) -> int:
        """Tokens read and written over all trials; what a time budget is planned by."""
        return self.trials * self.requests * (self.depth + self.output)


@dataclass(frozen=True, slots=True)
class ExperimentPlan:
    """One question: its cells in the order they run, and those that a time budget left out of it.

    ``whole``: without one of them the others answer nothing.
    """

    name: str
    cells: tuple[CellPlan, ...]
    whole: bool = False
    left_out: tuple[CellPlan, ...] = ()
