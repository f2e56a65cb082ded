"""The vLLM plan: block pool, what else a GPU (or a CPU box) holds, and why a start would be refused."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from gearshift.artifacts.facts import ModelFacts, TensorRole
from gearshift.domain.units import GIB
from gearshift.planner.kv_types import dtype_bytes
from gearshift.planner.ledger import DeviceLedger, Line, Plan, calibrated, verdict
from gearshift.planner.positions import vllm_longest
from gearshift.planner.request import PlannedDevice, PlanRequest
from gearshift.planner.vllm_blocks import activation_dtype
from gearshift.planner.vllm_pool import pool_figures
from gearshift.planner.vllm_start import VllmStart, notes, refusals, resolve

_POOL, _WEIGHTS, _SERVERS = "kv pool", "weights", "server processes"
_WEIGHTS_ERROR = 50  # two percent: norms and small tensors are not cast or not divided
_STATED_ERROR = 20  # a stated size may count a draft head or a vision tower that is not loaded, and is rounded
_CAST_TYPES = frozenset({"F32", "F16", "BF16"})

# Modelled from the public start-up logs listed in docs/planner.md; (bytes, error).
_CONTEXT_ALONE = (int(0.4 * GIB), int(0.2 * GIB))
_CONTEXT_RANKS = (int(0.95 * GIB), int(0.35 * GIB))  # NCCL's communicators are there before the engine first looks
_LIBRARIES_ALONE = (int(0.25 * GIB), int(0.2 * GIB))
_LIBRARIES_RANKS = (int(1.7 * GIB), int(0.6 * GIB))
_ACTIVATION = (int(0.6 * GIB), int(0.3 * GIB))
_GRAPHS = (int(0.2 * GIB), int(0.2 * GIB))
_CPU_WORKER = (int(0.86 * GIB), int(0.2 * GIB))
_CPU_SERVERS = (int(1.1 * GIB), int(0.4 * GIB))  # API server and engine core: 1.18 GiB resident, 0.92 shared out
# The engine's share of the card does not count what was there before it or is captured after it sized the pool.
_OUTSIDE_SHARE = frozenset({"cuda context", "cuda graphs", _SERVERS})


def plan_vllm(request: PlanRequest, facts: ModelFacts) -> Plan:
    """Plan one vLLM server over ``request.devices`` as tensor-parallel ranks. Never raises for a bad fit."""
    start = resolve(request, facts)
    lines = _fixed_lines(start)
    fixed = tuple(
        _measured(request, device, lines if rank == 0 else _of_another_rank(lines))
        for rank, device in enumerate(request.devices)
    )
    pool = _pool(start, fixed) if facts.keeps_anything else None
    longest = max(start.context, vllm_longest(request, facts, start.rules) or 0)
    figures = pool_figures(start.layout, start.rules, context=start.context, longest=longest, pool=pool)
    doubt = _pool_doubt(start.accepted_pool, pool, _pool_error(request, fixed))
    reasons = refusals(start, replace(figures, blocks=None), None) if doubt else refusals(start, figures, pool)
    ledgers = tuple(_with_pool(request, ledger, pool) for ledger in fixed)
    complete = facts.size_known and not request.draft_unknown and (pool is not None or not facts.keeps_anything)
    answer = verdict(ledgers, reasons, complete=complete)
    return Plan(
        fits=None if doubt and answer else answer,
        refusals=reasons,
        kv=figures if facts.keeps_anything else None,
        ledger=ledgers,
        kv_bytes=pool,
        context=start.context or None,
        notes=(*notes(start), *((doubt,) if doubt else ())),
        complete=complete,
    )


def loaded_roles(request: PlanRequest, facts: ModelFacts) -> tuple[TensorRole, ...]:
    """The tensors that reach the device: the draft head only with MTP, the vision tower unless text-only."""
    roles: list[TensorRole] = ["body", "embedding", "head"]
    if request.built_in_draft:
        roles.append("mtp")
    if facts.vision and not request.text_only:
        roles.append("vision")
    return tuple(roles)


def _fixed_lines(start: VllmStart) -> tuple[Line, ...]:
    """What a rank holds beside the pool; without weights at hand that line is missing."""
    request, facts = start.request, start.facts
    ranks = len(request.devices)
    weights = (_weights(request, facts, ranks),) if facts.size_known else ()
    draft = (_draft_weights(request, request.draft, ranks),) if request.draft else ()
    if request.device_kind == "cpu":
        worker, servers = _CPU_WORKER, _CPU_SERVERS
        return (
            *weights,
            *draft,
            Line("worker runtime", worker[0], "modelled", worker[1]),
            Line(_SERVERS, servers[0], "modelled", servers[1]),
        )
    context, libraries = (_CONTEXT_ALONE, _LIBRARIES_ALONE) if ranks <= 1 else (_CONTEXT_RANKS, _LIBRARIES_RANKS)
    graphs = () if request.eager else (Line("cuda graphs", _GRAPHS[0], "modelled", _GRAPHS[1]),)
    return (
        *weights,
        *draft,
        Line("cuda context", context[0], "modelled", context[1]),
        Line("libraries", libraries[0], "modelled", libraries[1]),
        _activation(start),
        *graphs,
    )


def _of_another_rank(lines: tuple[Line, ...]) -> tuple[Line, ...]:
    """The API server and the engine core are there once, however many ranks there are; they count on the first."""
    return tuple(line for line in lines if line.name != _SERVERS)


def _weights(request: PlanRequest, facts: ModelFacts, ranks: int) -> Line:
    """Exact on one rank of files at hand; on several some tensors are whole on each, which the error covers."""
    if not facts.weights_known:
        share = (facts.stated_bytes or 0) // ranks
        return Line(_WEIGHTS, share, "modelled", share // _STATED_ERROR)
    roles = loaded_roles(request, facts)
    size, stored = loaded_bytes(request, facts, roles), facts.bytes_of(roles)
    whole_everywhere = loaded_bytes(request, facts, ("vision",)) if "vision" in roles and ranks > 1 else 0
    share = (size - whole_everywhere) // ranks + whole_everywhere
    if ranks <= 1 and size == stored:
        return Line(_WEIGHTS, size)
    return Line(_WEIGHTS, share, "modelled", share // _WEIGHTS_ERROR)


def _draft_weights(request: PlanRequest, draft: ModelFacts, ranks: int) -> Line:
    size = loaded_bytes(request, draft, ("body", "head", "embedding")) // ranks
    return Line("draft weights", size, "modelled", size // _WEIGHTS_ERROR)


def loaded_bytes(request: PlanRequest, facts: ModelFacts, roles: Iterable[TensorRole]) -> int:
    """Bytes after loading: an unquantized checkpoint is cast to the type it runs in, a quantized one is kept."""
    target, wanted = dtype_bytes(activation_dtype(request, facts)), frozenset(roles)
    cast = target if facts.quantization is None else None
    return sum(
        group.elements * cast if cast and group.type in _CAST_TYPES else group.bytes
        for group in facts.tensors
        if group.role in wanted
    )


def _activation(start: VllmStart) -> Line:
    """Peak of the profile run: a constant at 2,048 tokens of a batch, growing with its hidden and FFN rows."""
    extra = max(start.limits.batched_tokens - 2048, 0)
    rows = extra * (2 * start.facts.hidden + 3 * (start.facts.ffn or 0)) * 2 // max(len(start.request.devices), 1)
    return Line("peak activation", _ACTIVATION[0] + rows, "modelled", _ACTIVATION[1] + rows // 2)


def _measured(request: PlanRequest, device: PlannedDevice, lines: tuple[Line, ...]) -> DeviceLedger:
    """One rank without its pool; what an earlier start's log says replaces what is modelled."""
    ledger = DeviceLedger(device.id, device.total_bytes, lines)
    measured = request.calibration.lines.get(device.id) if request.calibration else None
    return calibrated(ledger, measured) if measured else ledger


def _pool(start: VllmStart, ranks: tuple[DeviceLedger, ...]) -> int | None:
    """The pool that is asked for, else what is left."""
    asked = start.request.kv_bytes
    return asked if asked is not None else _remaining_pool(start, ranks)


def _remaining_pool(start: VllmStart, ranks: tuple[DeviceLedger, ...]) -> int | None:
    """What the engine gives the pool by itself: the least that a rank's share leaves; None if not knowable."""
    if not start.facts.size_known or start.request.draft_unknown or not ranks:
        return None
    left = []
    for rank in ranks:
        if rank.total_bytes is None:
            return None
        counted = sum(line.bytes for line in rank.lines if line.name not in _OUTSIDE_SHARE)
        left.append(math.ceil(rank.total_bytes * start.memory_share) - counted)
    return max(min(left), 0)


def _pool_error(request: PlanRequest, ranks: tuple[DeviceLedger, ...]) -> int:
    """How far a pool that takes what the share leaves may be off: by the error of all that is counted before it."""
    if request.kv_bytes is not None:
        return 0
    return max(
        (sum(line.error_bytes for line in rank.lines if line.name not in _OUTSIDE_SHARE) for rank in ranks), default=0
    )


def _pool_doubt(needed: int, pool: int | None, error: int) -> str | None:
    """A word on a pool whose error decides whether the engine starts; a pinned pool has none."""
    if pool is None or abs(pool - needed) >= error:
        return None
    return (
        f"whether the pool that is left ({pool / GIB:.2f} +- {error / GIB:.2f} GiB) is enough "
        f"({needed / GIB:.2f} GiB) cannot be told: pin it with kv_bytes"
    )


def _with_pool(request: PlanRequest, rank: DeviceLedger, pool: int | None) -> DeviceLedger:
    if pool is None:
        return rank
    pinned = request.kv_bytes is not None
    lines = rank.lines if pinned else tuple(_settled(line) for line in rank.lines)
    return replace(rank, lines=(*lines, Line(_POOL, pool, "exact" if pinned else "modelled")))


def _settled(line: Line) -> Line:
    """An unpinned pool absorbs the error of every line within the share: together they are what was asked for.

    So none of them adds to the device's error; `_pool_error` says how far the pool itself may be off.
    """
    return line if line.name in _OUTSIDE_SHARE else Line(line.name, line.bytes, line.kind)
