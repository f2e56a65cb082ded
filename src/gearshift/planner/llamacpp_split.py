"""Which layer lands on which device: llama.cpp's rules for layer split and partial offload.

Source: src/llama-model.cpp:1555-1610 of b11434. With partial offload the first layers stay on the host; the output
layer counts as one more layer after the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from gearshift.planner.request import PlanRequest

HOST = -1


def place_layers(blocks: int, shares: Sequence[float], gpu_layers: int | None) -> tuple[int, ...]:
    """Device index (or HOST) of each block, then of the output layer: ``blocks + 1`` entries.

    ``shares`` are the devices' parts, in any unit; ``gpu_layers`` None = all.
    """
    wanted = blocks + 1 if gpu_layers is None else max(gpu_layers, 0)
    first, offloaded = max(blocks + 1 - wanted, 0), min(wanted, blocks + 1)
    bounds = [part / sum(shares) for part in accumulate(shares)]
    return tuple(
        HOST if index < first else _first_above(bounds, (index - first) / offloaded) for index in range(blocks + 1)
    )


def device_shares(request: PlanRequest) -> tuple[float, ...]:
    """How layers are shared out: --tensor-split, else by memory, else evenly."""
    count = len(request.devices)
    if request.split == "none" or count <= 1:
        return (1.0,)
    if request.shares is not None and len(request.shares) == count and sum(request.shares) > 0:
        return request.shares
    totals = [device.total_bytes for device in request.devices]
    known = tuple(float(total) for total in totals if total)
    return known if len(known) == count else (1.0,) * count


def _first_above(bounds: Sequence[float], position: float) -> int:
    return next((index for index, bound in enumerate(bounds) if bound > position), len(bounds) - 1)
