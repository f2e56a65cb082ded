"""A plan beside the start-up log of the start it planned: what differed, and what to keep for the next plan."""

from __future__ import annotations

from dataclasses import dataclass

from gearshift.domain.startup import DeviceBuffer, StartFigures
from gearshift.planner.calibration import Calibration
from gearshift.planner.ledger import PagedKv, Plan, SlotKv

_LINE_OF_BUFFER = {  # kind and context of a log's buffer to the ledger's line
    ("kv", "target"): "kv cache",
    ("kv", "draft"): "draft kv cache",
    ("state", "target"): "recurrent state",
    ("compute", "target"): "compute",
    ("compute", "draft"): "draft compute",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """One figure that plan and log both have; ``planned`` and ``logged`` in the figure's own unit."""

    name: str
    planned: float
    logged: float

    @property
    def relative(self) -> float:
        """Planned over logged, less one: 0.02 = planned two percent too much."""
        return self.planned / self.logged - 1 if self.logged else 0.0


def differences(planned: Plan, figures: StartFigures) -> tuple[Difference, ...]:
    """Every figure known on both sides, whether it agrees or not."""
    pairs = {
        **_cache_figures(planned.kv, figures),
        "weights": (_line_total(planned, "weights"), figures.weights_bytes),
        "context": (planned.context, figures.context),
    }
    return tuple(
        Difference(name, ours, theirs)
        for name, (ours, theirs) in pairs.items()
        if ours is not None and theirs is not None
    )


def calibration_of(planned: Plan, figures: StartFigures) -> Calibration:
    """What the next plan of the same variant should take from this log instead of modelling it.

    Lines are kept where the plan has one device, so that a log's own device names need no matching.
    """
    block, per_block = _block_figures(planned.kv, figures)
    if len(planned.ledger) != 1:
        return Calibration(block_size=block, bytes_per_block=per_block)
    lines: dict[str, int] = {}
    for buffer in figures.buffers:
        name = _line_name(planned, buffer)
        if name is not None:
            lines[name] = lines.get(name, 0) + buffer.bytes
    if figures.graph_bytes is not None:
        lines["cuda graphs"] = max(figures.graph_bytes, 0)  # the engine's estimate can be negative
    return Calibration(lines={planned.ledger[0].device: lines}, block_size=block, bytes_per_block=per_block)


def _cache_figures(kv: PagedKv | SlotKv | None, figures: StartFigures) -> dict[str, tuple[float | None, float | None]]:
    match kv:
        case PagedKv():
            return {
                "block size": (kv.block_size, figures.block_size),
                "kv tokens": (kv.tokens, figures.kv_tokens),
                "concurrency": (kv.concurrency, figures.concurrency),
            }
        case SlotKv():
            return {
                "kv cache": (kv.bytes + kv.draft_bytes, figures.kv_pool_bytes),
                "recurrent state": (kv.state_bytes, figures.state_bytes),
            }
        case None:
            return {}


def _line_total(planned: Plan, name: str) -> int | None:
    sizes = [line.bytes for ledger in planned.ledger for line in ledger.lines if line.name == name]
    return sum(sizes) if sizes else None


def _block_figures(kv: PagedKv | SlotKv | None, figures: StartFigures) -> tuple[int | None, int | None]:
    """Block size and bytes per block as the log gives them; only for layouts that no formula covers."""
    if not isinstance(kv, PagedKv) or kv.exact or figures.kv_pool_bytes is None or not figures.concurrency:
        return None, None
    blocks = round(figures.concurrency * kv.blocks_per_request)
    return figures.block_size, figures.kv_pool_bytes // blocks if blocks else None


def _line_name(planned: Plan, buffer: DeviceBuffer) -> str | None:
    on_cpu = planned.ledger[0].device == "cpu"
    if buffer.host and not on_cpu:
        return None
    return _LINE_OF_BUFFER.get((buffer.kind, buffer.context))
