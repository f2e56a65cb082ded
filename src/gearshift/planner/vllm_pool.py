"""What a vLLM pool of a given size holds, and the smallest pool for a given context. Byte-exact where the layout is."""

from __future__ import annotations

from dataclasses import replace

from gearshift.domain.units import GIB
from gearshift.planner.ledger import PagedKv
from gearshift.planner.vllm_blocks import BlockLayout
from gearshift.planner.vllm_rules import VllmRules


def pool_figures(layout: BlockLayout, rules: VllmRules, *, context: int, longest: int, pool: int | None) -> PagedKv:
    """The engine's own figures for one request of ``context`` tokens in a ``pool`` of bytes per GPU.

    ``longest`` bounds the context search, as the model's own limit bounds the engine's.
    """
    per_block = layout.bytes_per_block
    needed = layout.blocks_for(context)
    smallest = (needed + rules.null_block_counts) * per_block
    figures = PagedKv(
        block_size=layout.block_size,
        bytes_per_block=per_block,
        blocks_per_request=needed,
        min_bytes=smallest,
        recommended_bytes=(needed + 1) * per_block,
        exact=layout.exact,
    )
    if pool is None or not per_block or not needed:
        return figures
    concurrency = pool // per_block / needed
    return replace(
        figures,
        blocks=pool // per_block,
        tokens=int(concurrency * context),
        concurrency=concurrency,
        max_context=longest_context(layout, rules, pool=pool, longest=longest),
    )


def longest_context(layout: BlockLayout, rules: VllmRules, *, pool: int, longest: int) -> int:
    """The largest length up to ``longest`` whose request passes the start-up check; 0 when not even one token does."""
    usable = pool // layout.bytes_per_block - rules.null_block_counts
    low, high = 0, longest
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if layout.blocks_for(middle) <= usable else (low, middle - 1)
    return low


def refusal(figures: PagedKv, rules: VllmRules, *, context: int, pool: int, pinned: bool) -> str | None:
    """Why the engine would refuse this context, with the figures of its own message and what to set; None if it starts.

    From 0.29 on the engine reports the pool without the block it keeps back. Only a ``pinned`` pool can be enlarged
    by the bytes that are missing; another takes what is left.
    """
    if figures.min_bytes <= pool:
        return None
    per_block = figures.bytes_per_block
    if pool - rules.null_block_counts * per_block <= 0:
        return (
            f"no memory is left for the cache: a pool of {pool} bytes, where {figures.min_bytes} are needed; "
            f"{_way_out(figures, pinned=pinned)}"
        )
    needed, held = figures.blocks_per_request * per_block, pool - rules.null_block_counts * per_block
    return (
        f"one request of {context} tokens needs {needed / GIB:.2f} GiB of KV cache, more than the "
        f"{held / GIB:.2f} GiB available: it is {context - (figures.max_context or 0):,} tokens, or "
        f"{figures.min_bytes - pool:,} bytes, short; {_way_out(figures, pinned=pinned)}"
    )


def _way_out(figures: PagedKv, *, pinned: bool) -> str:
    """In plain digits, to be copied into the configuration."""
    larger = f"set kv_bytes to {figures.recommended_bytes}" if pinned else "leave the pool more of the device"
    return f"{larger}, or set context to {figures.max_context}" if figures.max_context else larger
