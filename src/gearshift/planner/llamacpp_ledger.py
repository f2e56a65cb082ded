"""Line by line where a llama-server's bytes go: on the CPU, on each card, and in host memory beside the cards."""

from __future__ import annotations

from dataclasses import replace

from gearshift.domain.units import MIB
from gearshift.planner.ledger import DeviceLedger, Line, LineKind
from gearshift.planner.llamacpp_blocks import MIRRORED, Placed, tensor_share
from gearshift.planner.llamacpp_compute import (
    card_lines,
    compute_line,
    cpu_compute,
    device_compute,
    host_compute,
    output_lines,
    projector_lines,
)
from gearshift.planner.llamacpp_split import HOST, device_shares, place_layers
from gearshift.planner.llamacpp_start import LlamaStart

_REPACKED_TYPES = frozenset({"Q4_0", "Q4_K", "Q2_K", "IQ4_NL"})  # ggml-cpu/repack.cpp on x86 with AVX2/AVX-512
_REPACKED_ERROR = 10  # a tenth: row counts that do not divide are left as they are
_PROCESS = (50 * MIB, 40 * MIB)  # vocabulary, HTTP server, allocator: 15 to 22 MiB with 49k tokens, measured


def cpu_ledger(start: LlamaStart) -> DeviceLedger:
    """Everything in the one memory there is; a tied head is the embedding itself."""
    request, facts, batch = start.request, start.facts, start.batch
    scratch = [compute_line("compute", cpu_compute(facts, batch), batch)]
    if request.built_in_draft:
        scratch.append(compute_line("draft compute", cpu_compute(facts, batch, draft=True), batch))
    lines = (
        *_placed_lines(start, start.sizes.total(), embedding=facts.bytes_of(("embedding",))),
        *_repacked(start),
        *scratch,
        *output_lines(facts, start.cells),
        *projector_lines(request),
        Line("process", _PROCESS[0], "modelled", _PROCESS[1]),
    )
    device = request.devices[0]
    return DeviceLedger(device.id, device.total_bytes, lines)


def card_ledgers(start: LlamaStart) -> tuple[DeviceLedger, ...]:
    """One ledger for each card that is used; the draft context works on the last, the projector on the first."""
    placed = _placed(start)
    last = len(placed) - 1
    return tuple(
        DeviceLedger(
            device.id,
            device.total_bytes,
            (
                *_placed_lines(start, part),
                *_scratch(start, drafts=index == last or start.splits_tensors),
                *(projector_lines(start.request) if index == 0 else ()),
                *card_lines(start.request, start.cells),
            ),
        )
        for index, (device, part) in enumerate(zip(start.request.devices, placed, strict=False))
    )


def host_lines(start: LlamaStart) -> tuple[Line, ...]:
    """Host memory beside the cards: the embedding, layers and caches that stay behind, pinned inputs, outputs."""
    inputs = host_compute(start.facts, start.batch, layers_stay=start.partly_offloaded)
    return (
        *_placed_lines(start, _resting(start), embedding=start.facts.bytes_of(("embedding",))),
        compute_line("pinned inputs", start.contexts * inputs, start.batch),
        *output_lines(start.facts, start.cells, contexts=start.contexts),
    )


def _places(start: LlamaStart) -> tuple[int, ...]:
    shares = device_shares(start.request)
    return place_layers(len(start.sizes.weights) - 1, shares, start.request.gpu_layers)


def _placed(start: LlamaStart) -> tuple[Placed, ...]:
    """What rests on each card in use."""
    if start.splits_tensors:
        cards = len(start.request.devices)
        parts = [tensor_share(start.sizes, cards)] * cards
    else:
        places = _places(start)
        parts = [start.sizes.on(places, card) for card in range(len(device_shares(start.request)))]
    if start.request.caches_on_host:
        parts = [Placed(weights=part.weights) for part in parts]
    return tuple(parts)


def _resting(start: LlamaStart) -> Placed:
    """What stays in host memory: layers not offloaded, and all caches with -nkvo."""
    left = Placed() if start.splits_tensors else start.sizes.on(_places(start), HOST)
    return replace(start.sizes.total(), weights=left.weights) if start.request.caches_on_host else left


def _scratch(start: LlamaStart, *, drafts: bool) -> tuple[Line, ...]:
    facts, batch = start.facts, start.batch
    target = compute_line("compute", device_compute(facts, batch), batch)
    if not (drafts and start.request.built_in_draft):
        return (target,)
    return target, compute_line("draft compute", device_compute(facts, batch, draft=True), batch)


def _placed_lines(start: LlamaStart, placed: Placed, *, embedding: int = 0) -> tuple[Line, ...]:
    caches = {"kv cache": placed.kv, "draft kv cache": placed.draft_kv, "recurrent state": placed.state}
    weights = (_weights(start, placed.weights + embedding),) if start.facts.weights_known else ()
    return tuple(line for line in (*weights, *(Line(name, size) for name, size in caches.items())) if line.bytes)


def _weights(start: LlamaStart, size: int) -> Line:
    """Exact but where tensors are mirrored over cards, or moved to the host by an override."""
    error = size if start.request.overrides else size // MIRRORED if start.splits_tensors else 0
    kind: LineKind = "modelled" if error else "exact"
    return Line("weights", size, kind, error)


def _repacked(start: LlamaStart) -> tuple[Line, ...]:
    """Types that CPU builds repack lie in memory twice: in the mapped file and in the faster layout."""
    groups = start.facts.tensors
    size = sum(group.bytes for group in groups if group.role == "body" and group.type in _REPACKED_TYPES)
    return (Line("repacked weights", size, "modelled", size // _REPACKED_ERROR),) if size else ()
