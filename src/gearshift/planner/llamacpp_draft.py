"""A separate draft model beside the target: its weights and a context of its own, as long as the target's."""

from __future__ import annotations

from dataclasses import replace

from gearshift.artifacts.facts import ModelFacts
from gearshift.planner.ledger import Line
from gearshift.planner.llamacpp_blocks import Placed, block_sizes
from gearshift.planner.llamacpp_caches import Cells
from gearshift.planner.llamacpp_compute import batch_of, compute_line, cpu_compute, device_compute
from gearshift.planner.request import PlanRequest


def draft_model_lines(request: PlanRequest, draft: ModelFacts, cells: Cells) -> tuple[Line, ...]:
    """What the draft model takes of the last device; of several cards it may take less, which the error covers."""
    own = _own_request(request)
    on_cpu = request.device_kind == "cpu"
    batch = batch_of(own, draft, cells)
    scratch = cpu_compute(draft, batch) if on_cpu else device_compute(draft, batch)
    held = block_sizes(own, draft, cells).total()
    embedding = draft.bytes_of(("embedding",)) if on_cpu else 0
    return (
        *_lines(held, embedding, spread=len(request.devices) > 1),
        compute_line("draft compute", scratch, batch),
    )


def draft_model_cache(request: PlanRequest, draft: ModelFacts, cells: Cells) -> int:
    """Bytes of the draft model's attention cache, which is as long as the target's."""
    return block_sizes(_own_request(request), draft, cells).total().kv


def _own_request(request: PlanRequest) -> PlanRequest:
    return replace(request, draft=None, speculation=None, kv_dtype=request.draft_kv_dtype, devices=request.devices[-1:])


def _lines(held: Placed, embedding: int, *, spread: bool) -> tuple[Line, ...]:
    sizes = {
        "draft weights": held.weights + embedding,
        "draft kv cache": held.kv,
        "draft recurrent state": held.state,
    }
    return tuple(
        Line(name, size, "modelled" if spread else "exact", size if spread else 0)
        for name, size in sizes.items()
        if size
    )
