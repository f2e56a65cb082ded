"""A plan beside the start-up log of the start it planned: what differed, and what to keep for the next plan."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gearshift.domain.device import CPU_DEVICE
from gearshift.domain.startup import DeviceBuffer, StartFigures
from gearshift.planner.calibration import Calibration
from gearshift.planner.ledger import PagedKv, Plan, SlotKv

_LINES_OF_SLOTS = {  # kind and context of llama.cpp's buffer to the ledger's line
    ("kv", "target"): "kv cache",
    ("kv", "draft"): "draft kv cache",
    ("state", "target"): "recurrent state",
    ("compute", "target"): "compute",
    ("compute", "draft"): "draft compute",
}
_LINES_OF_PAGES = {  # the same of vLLM, whose pool is no finding: it was pinned, or it is what the others leave
    ("weights", "target"): "weights",
    ("compute", "target"): "peak activation",
    ("graph", "target"): "cuda graphs",
}
_NUMBERED = re.compile(r"[A-Za-z ]+(\d+)")  # CUDA1, rank 1: the engine counts the devices it was given
_ALL = "Meta()"  # llama.cpp's tensor split names one share for every card


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

    The engine numbers its devices in the order in which they were planned; a buffer on another one is left out.
    """
    block, per_block = _block_figures(planned.kv, figures)
    lines: dict[str, dict[str, int]] = {}
    for buffer in figures.buffers:
        name = _line_name(planned, buffer)
        for device in _devices(planned, buffer) if name else ():
            held = lines.setdefault(device, {})
            held[str(name)] = held.get(str(name), 0) + max(buffer.bytes, 0)  # a graph estimate can be negative
    return Calibration(lines=lines, block_size=block, bytes_per_block=per_block)


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
                "kv cache": (None if kv.draft_bytes is None else kv.bytes + kv.draft_bytes, figures.kv_pool_bytes),
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
    if buffer.host and not _on_cpu(planned):
        return None
    if not isinstance(planned.kv, PagedKv):
        return _LINES_OF_SLOTS.get((buffer.kind, buffer.context))
    name = _LINES_OF_PAGES.get((buffer.kind, buffer.context))
    with_drafter = name == "weights" and _line_total(planned, "draft weights") is not None
    return None if with_drafter else name  # vLLM's figure would hold both


def _devices(planned: Plan, buffer: DeviceBuffer) -> tuple[str, ...]:
    """The planned devices that a log's device means."""
    devices = tuple(ledger.device for ledger in planned.ledger)
    if len(devices) <= 1 or buffer.device == _ALL:
        return devices
    match = _NUMBERED.fullmatch(buffer.device)
    return devices[int(match[1]) :][:1] if match else ()


def _on_cpu(planned: Plan) -> bool:
    return any(ledger.device == CPU_DEVICE for ledger in planned.ledger)
