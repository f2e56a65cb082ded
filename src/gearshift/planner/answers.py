"""What a person asks of a plan: the longest context, streams at once, and which change frees most."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gearshift.artifacts.facts import ModelFacts
from gearshift.planner.ledger import DeviceLedger, PagedKv, Plan
from gearshift.planner.llamacpp_caches import AUTO_SLOTS
from gearshift.planner.llamacpp_fit import longest_slot_context
from gearshift.planner.planning import plan
from gearshift.planner.positions import llamacpp_longest, vllm_longest
from gearshift.planner.request import PlanRequest
from gearshift.planner.vllm_pool import longest_context as longest_in_pool
from gearshift.planner.vllm_rules import vllm_rules
from gearshift.planner.vllm_start import resolve

_SHORT = 512  # tokens; halving a context below this frees nothing
_SMALLER_KV = {
    "llama.cpp": {"f32": "f16", "f16": "q8_0", "bf16": "q8_0", "q8_0": "q4_0"},
    "vllm": {"auto": "fp8", "bfloat16": "fp8", "float16": "fp8"},
}


@dataclass(frozen=True, slots=True)
class Lever:
    """One change of settings and the bytes it frees on the fullest device, everything else equal."""

    name: str  # "slots" | "kv type" | "speculation" | "micro batch" | "batched tokens" | "context"
    change: str  # what to set: "parallel 4 -> 1"
    freed_bytes: int


def required_bytes(request: PlanRequest, facts: ModelFacts) -> int:
    """What the fullest device needs for one full-length request (vLLM) or for all slots (llama.cpp)."""
    wanted = replace(request, kv_bytes=resolve(request, facts).smallest_pool) if request.engine == "vllm" else request
    return max((ledger.planned_bytes for ledger in plan(wanted, facts).ledger), default=0)


def longest_context(request: PlanRequest, facts: ModelFacts, *, automatic_pool: bool = False) -> int | None:
    """The longest request that still fits every device, up to what the model was trained for.

    A vLLM pool that is asked for holds what it holds; an ``automatic_pool`` grows with the context.
    None where the devices' memory, the weights or a separate drafter's are unknown; 0 where not even a short one fits.
    """
    if request.engine == "vllm":
        return _longest_automatic(request, facts) if automatic_pool else _longest_paged(request, facts)
    sized = facts.weights_known and not request.draft_unknown
    if not sized or any(device.total_bytes is None for device in request.devices):
        return None
    return longest_slot_context(request, facts)


def model_longest(request: PlanRequest, facts: ModelFacts) -> int | None:
    """What the model allows, where memory does not end it before; None where the files do not say."""
    if request.engine == "llama.cpp":
        return llamacpp_longest(request, facts)
    return vllm_longest(request, facts, vllm_rules(request.version))


def streams_at_once(planned: Plan, request: PlanRequest, facts: ModelFacts, *, length: int) -> int | None:
    """How many requests of ``length`` tokens run at the same time; None where the pool is not known.

    vLLM keeps one block back at run time on every version. What no device can hold runs none.
    """
    if any(ledger.fits is False for ledger in planned.ledger):
        return 0
    if isinstance(planned.kv, PagedKv):
        start = resolve(request, facts)
        if planned.kv.blocks is None:
            return None
        runs = (planned.kv.blocks - 1) // start.layout.blocks_for(length)
        return max(min(runs, start.limits.sequences), 0)
    if planned.kv is None:  # nothing is kept, so that no cache bounds them
        return None
    if length > planned.kv.slot_context:
        return 0
    slots = request.parallel or AUTO_SLOTS
    return slots if planned.kv.streams > 1 else min(slots, planned.kv.cells // max(length, 1))


def levers(request: PlanRequest, facts: ModelFacts) -> tuple[Lever, ...]:
    """Every single change that frees memory, the largest first.

    What was measured is of the settings as they are, so that both sides are modelled.
    """
    asked = replace(request, calibration=None)
    now = required_bytes(asked, facts)
    found = (
        Lever(name, change, now - required_bytes(changed, facts)) for name, change, changed in _changes(asked, facts)
    )
    return tuple(sorted((lever for lever in found if lever.freed_bytes > 0), key=lambda lever: -lever.freed_bytes))


def _changes(request: PlanRequest, facts: ModelFacts) -> Iterator[tuple[str, str, PlanRequest]]:
    yield from _fewer_slots(request, facts)
    yield from _smaller_kv(request)
    if request.speculation is not None:
        yield "speculation", f"{request.speculation.method} off", replace(request, speculation=None)
    yield from _smaller_batches(request, facts)
    context = request.context or facts.context_train
    if context and context > _SHORT:
        yield "context", f"context {context:,} -> {context // 2:,}", replace(request, context=context // 2)


def _fewer_slots(request: PlanRequest, facts: ModelFacts) -> Iterator[tuple[str, str, PlanRequest]]:
    automatic = AUTO_SLOTS if request.engine == "llama.cpp" else resolve(request, facts).limits.sequences
    slots = request.parallel or automatic
    if slots > 1:
        yield "slots", f"parallel {slots} -> 1", replace(request, parallel=1, unified_kv=None)


def _smaller_kv(request: PlanRequest) -> Iterator[tuple[str, str, PlanRequest]]:
    """The next smaller type for keys and values alike; vLLM's CPU kernels are not known to take one."""
    if request.engine == "vllm" and request.device_kind == "cpu":
        return
    keys, _, values = (request.kv_dtype or ("f16" if request.engine == "llama.cpp" else "auto")).partition(",")
    smaller = _SMALLER_KV.get(request.engine, {}).get(keys)
    if smaller:
        now = keys if values in {"", keys} else f"{keys},{values}"
        changed = replace(request, kv_dtype=smaller, draft_kv_dtype=smaller if request.engine == "llama.cpp" else None)
        yield "kv type", f"kv_dtype {now} -> {smaller}", changed


def _smaller_batches(request: PlanRequest, facts: ModelFacts) -> Iterator[tuple[str, str, PlanRequest]]:
    if request.engine == "llama.cpp" and request.ubatch > 128:  # noqa: PLR2004 - below it prefill gets slow
        smaller = replace(request, ubatch=request.ubatch // 2)
        yield "micro batch", f"ubatch {request.ubatch} -> {request.ubatch // 2}", smaller
    tokens = resolve(request, facts).limits.batched_tokens if request.engine == "vllm" else 0
    if tokens > 2048:  # noqa: PLR2004 - the default of most cards
        yield (
            "batched tokens",
            f"max-num-batched-tokens {tokens} -> 2048",
            replace(request, max_num_batched_tokens=2048),
        )


def _longest_paged(request: PlanRequest, facts: ModelFacts) -> int | None:
    """In the pool there is, or in what of it the fullest device can hold."""
    start, planned = resolve(request, facts), plan(request, facts)
    if planned.kv_bytes is None:
        return None
    missing = max((_excess(ledger) for ledger in planned.ledger), default=0)
    pool = max(planned.kv_bytes - missing, 0)
    longest = vllm_longest(request, facts, start.rules) or start.context
    return longest_in_pool(start.layout, start.rules, pool=pool, longest=longest)


def _longest_automatic(request: PlanRequest, facts: ModelFacts) -> int | None:
    """With all that the fullest device surely has left beside what else it holds, of which one block is kept back."""
    start, planned = resolve(request, facts), plan(replace(request, kv_bytes=0), facts)
    left = [
        None if ledger.total_bytes is None else ledger.total_bytes - ledger.planned_bytes - ledger.error_bytes
        for ledger in planned.ledger
    ]
    known = [size for size in left if size is not None]
    if not planned.complete or len(known) < len(left) or not known:
        return None
    kept = 0 if start.rules.null_block_counts else start.layout.bytes_per_block
    longest = vllm_longest(request, facts, start.rules) or start.context
    return longest_in_pool(start.layout, start.rules, pool=max(min(known) - kept, 0), longest=longest)


def _excess(ledger: DeviceLedger) -> int:
    """Bytes planned beyond what the device has; 0 where they are not surely too many."""
    return 0 if ledger.fits is not False or ledger.total_bytes is None else ledger.planned_bytes - ledger.total_bytes
