"""The llama.cpp plan: ledgers of every device, the caches' figures, and why a start would fail."""

from __future__ import annotations

from dataclasses import replace

from gearshift.artifacts.facts import ModelFacts
from gearshift.domain.units import GIB
from gearshift.planner.draft_fit import absent_draft, idle_notes
from gearshift.planner.ledger import DeviceLedger, Plan, SlotKv, calibrated, missing_files_note, verdict
from gearshift.planner.llamacpp_caches import bytes_per_token, state_rows, target_types
from gearshift.planner.llamacpp_checkpoints import full_slot_bytes
from gearshift.planner.llamacpp_draft import draft_model_cache, draft_model_lines
from gearshift.planner.llamacpp_host import beyond_ram, growing_lines, prompt_cache_limit
from gearshift.planner.llamacpp_ledger import card_ledgers, cpu_ledger, host_lines
from gearshift.planner.llamacpp_start import LlamaStart, resolve
from gearshift.planner.positions import llamacpp_longest, scaled
from gearshift.planner.request import PlanRequest

_PADDING = 256  # cells: a cache is a multiple of it
_UNMODELLED_STATE = frozenset({"falcon-h1", "deepseek4", "minimax-01"})
_INDEXED = frozenset(  # sparse attention: keys to look up what to attend to lie in a cache of their own
    {"deepseek32", "dots3note", "glm-dsa", "glm5-next", "hy_v4", "minimax-m3", "qwen4exp"}
)


def plan_llamacpp(request: PlanRequest, facts: ModelFacts) -> Plan:
    """Plan one llama-server. Raises ValueError for a cache type it does not have; never for a bad fit."""
    start = resolve(request, facts)
    on_cpu = request.device_kind == "cpu"
    planned = (cpu_ledger(start),) if on_cpu else card_ledgers(start)
    ledgers = _with_draft_model(start, tuple(_measured(request, ledger) for ledger in planned))
    reasons = _refusals(request, facts)
    host = (*(() if on_cpu else host_lines(start)), *growing_lines(request, facts))
    modelled = not _has_unmodelled_state(facts) and facts.family not in _INDEXED
    complete = facts.weights_known and not request.draft_unknown and modelled
    return Plan(
        fits=verdict(ledgers, reasons, complete=complete),
        refusals=reasons,
        kv=_figures(start),
        ledger=ledgers,
        host=host,
        kv_bytes=sum(start.sizes.kv) + sum(start.sizes.draft_kv) + sum(start.sizes.state),
        context=start.cells.per_stream,
        notes=(*_notes(start), *filter(None, (beyond_ram(request, ledgers, host),))),
        complete=complete,
    )


def _with_draft_model(start: LlamaStart, ledgers: tuple[DeviceLedger, ...]) -> tuple[DeviceLedger, ...]:
    """A separate draft model rests on the last device."""
    if start.request.draft is None:
        return ledgers
    lines = draft_model_lines(start.request, start.request.draft, start.cells)
    return (*ledgers[:-1], replace(ledgers[-1], lines=(*ledgers[-1].lines, *lines)))


def _figures(start: LlamaStart) -> SlotKv:
    facts, cells, sizes = start.facts, start.cells, start.sizes
    return SlotKv(
        cells=cells.per_stream,
        streams=cells.streams,
        slot_context=min(cells.per_stream, llamacpp_longest(start.request, facts) or cells.per_stream),
        bytes=sum(sizes.kv),
        bytes_per_token=bytes_per_token(facts, target_types(start.request)),
        draft_bytes=_draft_cache(start),
        state_bytes=sum(sizes.state),
        state_rows=state_rows(start.request, facts, cells) if facts.hybrid else 0,
    )


def _draft_cache(start: LlamaStart) -> int | None:
    """The cache of the draft context, of the built-in head or of a model of its own; None where that is not here."""
    request = start.request
    if request.draft is not None:
        return draft_model_cache(request, request.draft, start.cells)
    return None if request.draft_unknown else sum(start.sizes.draft_kv)


def _refusals(request: PlanRequest, facts: ModelFacts) -> tuple[str, ...]:
    stripped = facts.mtp is None or facts.mtp.complete is False
    if request.built_in_draft and stripped:
        return ("draft-mtp was asked for, but the file holds no complete MTP block",)
    return ()


def _has_unmodelled_state(facts: ModelFacts) -> bool:
    """Recurrent layers whose state these formulas do not know."""
    return facts.family in _UNMODELLED_STATE or (facts.count("recurrent") > 0 and facts.recurrent is None)


def _notes(start: LlamaStart) -> tuple[str, ...]:
    request, facts, cells = start.request, start.facts, start.cells.per_stream
    trained = llamacpp_longest(request, facts) or cells
    kept = full_slot_bytes(request, facts)
    found = {
        missing_files_note(facts): bool(facts.missing_files),
        absent_draft(request) or "": request.draft_unknown,
        f"a request ends at the model's {trained:,} tokens, in a cache of {cells:,}": cells - trained >= _PADDING,
        scaled(request, facts, context=cells) or "": scaled(request, facts, context=cells) is not None,
        f"the recurrent state of {facts.family} is not modelled": _has_unmodelled_state(facts),
        f"the indexer's cache of {facts.family} is not modelled": facts.family in _INDEXED,
        "the prompt cache in host memory has no limit (-cram)": prompt_cache_limit(request) is None,
        f"context checkpoints take up to {kept / GIB:.1f} GiB of host memory: see -ctxcp and -cms": kept >= GIB,
        "layers stay on the host: expect a fraction of the speed": start.partly_offloaded,
        "tensors moved to the host are not modelled: the cards' weights are upper bounds": request.overrides,
    }
    return (*(text for text, holds in found.items() if holds), *idle_notes(request, facts))


def _measured(request: PlanRequest, ledger: DeviceLedger) -> DeviceLedger:
    lines = request.calibration.lines.get(ledger.device) if request.calibration else None
    return calibrated(ledger, lines) if lines else ledger
