"""The llama.cpp plan: weights, caches and buffers by device, for every split mode and for the CPU."""

from __future__ import annotations

from dataclasses import replace

from gearshift.artifacts.facts import ModelFacts
from gearshift.domain.units import MIB
from gearshift.planner.ledger import DeviceLedger, Line, Plan, SlotKv, calibrated, verdict
from gearshift.planner.llamacpp_blocks import MIRRORED, Placed, Sizes, block_sizes, tensor_share
from gearshift.planner.llamacpp_caches import (
    Cells,
    bytes_per_token,
    cells_of,
    state_rows,
    target_types,
)
from gearshift.planner.llamacpp_compute import (
    Batch,
    batch_of,
    card_lines,
    compute_line,
    cpu_compute,
    device_compute,
    host_compute,
    output_line,
    projector_lines,
)
from gearshift.planner.llamacpp_draft import draft_model_lines
from gearshift.planner.llamacpp_split import HOST, device_shares, place_layers
from gearshift.planner.request import PlanRequest

_REPACKED_TYPES = frozenset({"Q4_0", "Q4_K", "Q2_K", "IQ4_NL"})  # ggml-cpu/repack.cpp on x86 with AVX2/AVX-512
_UNMODELLED_STATE = frozenset({"falcon-h1", "deepseek4", "minimax-01"})
_PROCESS = (50 * MIB, 40 * MIB)  # vocabulary, HTTP server, allocator: 15 to 22 MiB with 49k tokens, measured


def plan_llamacpp(request: PlanRequest, facts: ModelFacts) -> Plan:
    """Plan one llama-server. Raises ValueError for a cache type it does not have; never for a bad fit."""
    cells = cells_of(request, facts)
    sizes = block_sizes(request, facts, cells)
    planned, host = (_cpu_ledgers if request.device_kind == "cpu" else _gpu_ledgers)(request, facts, cells, sizes)
    ledgers = tuple(_measured(request, ledger) for ledger in planned)
    ledgers = _with_draft_model(request, ledgers, cells)
    reasons = _refusals(request, facts)
    complete = facts.weights_known and not request.draft_unknown and not _has_unmodelled_state(facts)
    return Plan(
        fits=verdict(ledgers, reasons, complete=complete),
        refusals=reasons,
        kv=_figures(request, facts, cells, sizes),
        ledger=ledgers,
        host=host,
        kv_bytes=sum(sizes.kv) + sum(sizes.draft_kv) + sum(sizes.state),
        context=cells.per_stream,
        notes=_notes(request, facts),
        complete=complete,
    )


def _cpu_ledgers(
    request: PlanRequest, facts: ModelFacts, cells: Cells, sizes: Sizes
) -> tuple[tuple[DeviceLedger, ...], tuple[Line, ...]]:
    batch = batch_of(request, facts, cells)
    draft = (
        (compute_line("draft compute", cpu_compute(facts, batch, draft=True), batch),) if request.built_in_draft else ()
    )
    repacked = sum(group.bytes for group in facts.tensors if group.role == "body" and group.type in _REPACKED_TYPES)
    lines = (
        *_placed_lines(facts, sizes.total(), embedding=facts.bytes_of(("embedding",))),
        *((Line("repacked weights", repacked, "modelled", repacked // 10),) if repacked else ()),
        compute_line("compute", cpu_compute(facts, batch), batch),
        *draft,
        output_line(facts, cells),
        *projector_lines(request),
        Line("process", _PROCESS[0], "modelled", _PROCESS[1]),
    )
    device = request.devices[0]
    return (DeviceLedger(device.id, device.total_bytes, lines),), ()


def _gpu_ledgers(
    request: PlanRequest, facts: ModelFacts, cells: Cells, sizes: Sizes
) -> tuple[tuple[DeviceLedger, ...], tuple[Line, ...]]:
    batch = batch_of(request, facts, cells)
    if request.split == "tensor" and len(request.devices) > 1:
        shared = tensor_share(sizes, len(request.devices))
        placed = [shared] * len(request.devices)
        resting = Placed()
    else:
        shares = device_shares(request)
        places = place_layers(len(sizes.weights) - 1, shares, request.gpu_layers)
        placed = [sizes.on(places, index) for index in range(len(shares))]
        resting = sizes.on(places, HOST)
    used = tuple(zip(request.devices, placed, strict=False))
    ledgers = tuple(
        DeviceLedger(
            device.id,
            device.total_bytes,
            _card(request, facts, cells, batch, part, first=index == 0, last=index == len(used) - 1),
        )
        for index, (device, part) in enumerate(used)
    )
    return ledgers, _host_lines(request, facts, cells, batch, resting)


def _card(
    request: PlanRequest, facts: ModelFacts, cells: Cells, batch: Batch, placed: Placed, *, first: bool, last: bool
) -> tuple[Line, ...]:
    """One card; the draft context works on the last one, the projector on the first."""
    weights = _placed_lines(facts, placed)
    if request.split == "tensor" and facts.weights_known and len(request.devices) > 1:
        weights = (Line("weights", placed.weights, "modelled", placed.weights // MIRRORED), *weights[1:])
    drafts = request.built_in_draft and (last or request.split == "tensor")
    return (
        *weights,
        compute_line("compute", device_compute(facts, batch), batch),
        *((compute_line("draft compute", device_compute(facts, batch, draft=True), batch),) if drafts else ()),
        *(projector_lines(request) if first else ()),
        *card_lines(request, cells),
    )


def _with_draft_model(
    request: PlanRequest, ledgers: tuple[DeviceLedger, ...], cells: Cells
) -> tuple[DeviceLedger, ...]:
    """A separate draft model rests on the last device."""
    if request.draft is None:
        return ledgers
    lines = draft_model_lines(request, request.draft, cells)
    return (*ledgers[:-1], replace(ledgers[-1], lines=(*ledgers[-1].lines, *lines)))


def _placed_lines(facts: ModelFacts, placed: Placed, *, embedding: int = 0) -> tuple[Line, ...]:
    candidates = (
        Line("weights", placed.weights + embedding),
        Line("kv cache", placed.kv),
        Line("draft kv cache", placed.draft_kv),
        Line("recurrent state", placed.state),
    )
    return tuple(line for line in candidates if line.bytes and (line.name != "weights" or facts.weights_known))


def _host_lines(
    request: PlanRequest, facts: ModelFacts, cells: Cells, batch: Batch, resting: Placed
) -> tuple[Line, ...]:
    contexts = 2 if request.built_in_draft else 1
    output = output_line(facts, cells)
    return (
        *_placed_lines(facts, resting, embedding=facts.bytes_of(("embedding",))),
        compute_line("pinned inputs", contexts * host_compute(facts, batch), batch),
        Line(output.name, contexts * output.bytes),
    )


def _figures(request: PlanRequest, facts: ModelFacts, cells: Cells, sizes: Sizes) -> SlotKv:
    return SlotKv(
        cells=cells.per_stream,
        streams=cells.streams,
        slot_context=min(cells.per_stream, facts.context_train or cells.per_stream),
        bytes=sum(sizes.kv),
        bytes_per_token=bytes_per_token(facts, target_types(request)),
        draft_bytes=sum(sizes.draft_kv),
        state_bytes=sum(sizes.state),
        state_rows=state_rows(request, facts, cells) if facts.hybrid else 0,
    )


def _refusals(request: PlanRequest, facts: ModelFacts) -> tuple[str, ...]:
    stripped = facts.mtp is None or facts.mtp.complete is False
    if request.built_in_draft and stripped:
        return ("draft-mtp was asked for, but the file holds no complete MTP block",)
    return ()


def _has_unmodelled_state(facts: ModelFacts) -> bool:
    """Recurrent layers whose state these formulas do not know."""
    return facts.family in _UNMODELLED_STATE or (facts.count("recurrent") > 0 and facts.recurrent is None)


def _notes(request: PlanRequest, facts: ModelFacts) -> tuple[str, ...]:
    partial = request.gpu_layers is not None and request.gpu_layers <= len(facts.layers)
    found = {
        f"the recurrent state of {facts.family} is not modelled": _has_unmodelled_state(facts),
        "context checkpoints grow with the context in host memory: see -ctxcp and -cram": request.built_in_draft
        and facts.hybrid,
        "layers stay on the host: expect a fraction of the speed": partial and request.device_kind == "cuda",
    }
    return tuple(text for text, holds in found.items() if holds)


def _measured(request: PlanRequest, ledger: DeviceLedger) -> DeviceLedger:
    lines = request.calibration.lines.get(ledger.device) if request.calibration else None
    return calibrated(ledger, lines) if lines else ledger
