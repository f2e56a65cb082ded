"""A plan as plain JSON values: bytes, tokens and seconds as numbers, null where a figure is not known."""

from __future__ import annotations

from dataclasses import asdict

from gearshift.planner.ceiling import Ceiling
from gearshift.planner.ledger import DeviceLedger, Line, PagedKv, Plan, SlotKv

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]


_PAGED = (
    "block_size", "bytes_per_block", "blocks", "blocks_per_request", "tokens", "concurrency", "max_context",
    "min_bytes", "recommended_bytes",
)  # fmt: skip


def plan_document(
    planned: Plan, ceiling: Ceiling | None = None, *, acceptance_known: bool = True
) -> dict[str, JsonValue]:
    """The object that `plan --json` prints.

    ``acceptance_known`` False: the times of a step with drafts stand, but nobody said how many of them are accepted,
    so its tokens and tok/s are null.
    """
    document: dict[str, JsonValue] = {
        "fits": planned.fits,
        "refusals": list(planned.refusals),
        "context": planned.context,
        "kv": _kv(planned.kv),
        "ledger": [_ledger(ledger) for ledger in planned.ledger],
        "host": [_line(line) for line in planned.host],
        "notes": list(planned.notes),
        "ceiling": _ceiling(ceiling, acceptance_known=acceptance_known),
    }
    if isinstance(planned.kv, SlotKv):
        document["state"] = {"bytes": planned.kv.state_bytes, "rows": planned.kv.state_rows}
    return document


def _kv(kv: PagedKv | SlotKv | None) -> JsonValue:
    """Every key of the paged form, null for slots, which add their own."""
    figures: dict[str, JsonValue] = dict.fromkeys(_PAGED)
    match kv:
        case PagedKv():
            return {**figures, **asdict(kv)}
        case SlotKv():
            return {
                **figures,
                "bytes": kv.bytes,
                "bytes_per_token": kv.bytes_per_token,
                "draft_bytes": kv.draft_bytes,
                "cells": kv.cells,
                "streams": kv.streams,
                "slot_context": kv.slot_context,
            }
        case None:
            return figures


def _ledger(ledger: DeviceLedger) -> JsonValue:
    return {
        "gpu": ledger.device,
        "total_bytes": ledger.total_bytes,
        "lines": [_line(line) for line in ledger.lines],
    }


def _line(line: Line) -> JsonValue:
    return dict(asdict(line))


def _ceiling(ceiling: Ceiling | None, *, acceptance_known: bool) -> JsonValue:
    """Every key, null where there is no ceiling to compute."""
    rate = ceiling if acceptance_known else None
    names = ("weights_s", "kv_s", "state_s", "draft_s", "compute_s", "step_s")
    return {
        "tok_s": rate.tok_s if rate else None,
        "dominant": ceiling.dominant if ceiling else None,
        "tokens_per_step": rate.tokens_per_step if rate else None,
        "terms": {name: getattr(ceiling, name) if ceiling else None for name in names},
    }
