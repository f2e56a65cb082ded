"""Host memory that a llama-server takes as it serves, after its ledger was printed: saved prompts and checkpoints.

Both begin empty, so the lines hold what they may grow to, and their error reaches down to nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gearshift.artifacts.facts import ModelFacts
from gearshift.domain.device import CPU_DEVICE
from gearshift.domain.units import GIB
from gearshift.planner.ledger import DeviceLedger, Line
from gearshift.planner.llamacpp_caches import cells_of
from gearshift.planner.llamacpp_checkpoints import checkpoint_bytes, full_slot_bytes
from gearshift.planner.request import PlanRequest

PROMPT_CACHE, CHECKPOINTS = "prompt cache", "context checkpoints"
GROWING = frozenset({PROMPT_CACHE, CHECKPOINTS})
_LIMIT = 8 * GIB  # --cache-ram of b11434 and of builds before it
_FIRST_BUILD = 6720  # about: the host's prompt cache came with llama.cpp's PR 16391 of October 2025


def growing_lines(request: PlanRequest, facts: ModelFacts) -> tuple[Line, ...]:
    """What saved prompts and context checkpoints may come to. Without a limit (-1) saved prompts have no line."""
    limit, kept = prompt_cache_limit(request), full_slot_bytes(request, facts)
    saved = (Line(PROMPT_CACHE, limit, "modelled", limit),) if limit else ()
    most = _most_checkpoints(request, facts)
    return (*saved, *((Line(CHECKPOINTS, kept, "modelled", max(kept, most - kept)),) if kept else ()))


def prompt_cache_limit(request: PlanRequest) -> int | None:
    """``-cram`` in bytes, by the build's default where it is not set; 0 = off, None = no limit."""
    if request.prompt_cache is not None:
        return request.prompt_cache if request.prompt_cache >= 0 else None
    build = re.search(r"\d+", request.version or "")
    return 0 if build and 0 < int(build[0]) < _FIRST_BUILD else _LIMIT


def beyond_ram(request: PlanRequest, ledgers: Iterable[DeviceLedger], host: Iterable[Line]) -> str | None:
    """A word where all of it together is more than the RAM there is; None where it is not, or that is not known."""
    on_cpu = next((ledger for ledger in ledgers if ledger.device == CPU_DEVICE), None)
    total = on_cpu.total_bytes if on_cpu else request.ram_bytes
    needed = (on_cpu.planned_bytes if on_cpu else 0) + sum(line.bytes for line in host)
    if total is None or needed <= total:
        return None
    return (
        f"with prompt cache and checkpoints full it holds {needed / GIB:.1f} GiB of host memory, more than the "
        f"{total / GIB:.1f} GiB there are: lower -cram or -ctxcp"
    )


def _most_checkpoints(request: PlanRequest, facts: ModelFacts) -> int:
    """All that every slot may keep, each made at the end of a full context: user messages ask for them at any spacing.

    Slots that share the cells share the tokens, so that only what is kept whatever the length counts for each.
    """
    cells = cells_of(request, facts)
    apart = checkpoint_bytes(request, facts, 0)
    filled = checkpoint_bytes(request, facts, cells.per_stream) - apart
    return request.checkpoints * (cells.slots * apart + cells.streams * filled)
