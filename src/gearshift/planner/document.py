"""A plan as plain JSON values: bytes, tokens and seconds as numbers, null where a figure is not known."""

from __future__ import annotations

from dataclasses import asdict

from gearshift.planner.ceiling import Ceiling
from gearshift.planner.ledger import DeviceLedger, Line, PagedKv, Plan, SlotKv

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]


def plan_document(planned: Plan, ceiling: Ceiling | None = None) -> dict[str, JsonValue]:
    """The object that `plan --json` prints."""
    document: dict[str, JsonValue] = {
        "fits": planned.fits,
        "refusals": list(planned.refusals),
        "context": planned.context,
        "kv": _kv(planned.kv),
        "ledger": [_ledger(ledger) for ledger in planned.ledger],
        "host": [_line(line) for line in planned.host],
        "notes": list(planned.notes),
        "ceiling": _ceiling(ceiling) if ceiling else None,
    }
    if isinstance(planned.kv, SlotKv):
        document["state"] = {"bytes": planned.kv.state_bytes, "rows": planned.kv.state_rows}
    return document


def _kv(kv: PagedKv | SlotKv | None) -> JsonValue:
    match kv:
        case PagedKv():
            return {
                "block_size": kv.block_size,
                "bytes_per_block": kv.bytes_per_block,
                "blocks": kv.blocks,
                "blocks_per_request": kv.blocks_per_request,
                "tokens": kv.tokens,
                "concurrency": kv.concurrency,
                "max_context": kv.max_context,
                "min_bytes": kv.min_bytes,
                "recommended_bytes": kv.recommended_bytes,
                "exact": kv.exact,
            }
        case SlotKv():
            return {
                "bytes": kv.bytes,
                "bytes_per_token": kv.bytes_per_token,
                "draft_bytes": kv.draft_bytes,
                "cells": kv.cells,
                "streams": kv.streams,
                "slot_context": kv.slot_context,
            }
        case None:
            return None


def _ledger(ledger: DeviceLedger) -> JsonValue:
    return {
        "gpu": ledger.device,
        "total_bytes": ledger.total_bytes,
        "lines": [_line(line) for line in ledger.lines],
    }


def _line(line: Line) -> JsonValue:
    return dict(asdict(line))


def _ceiling(ceiling: Ceiling) -> JsonValue:
    return {
        "tok_s": ceiling.tok_s,
        "dominant": ceiling.dominant,
        "tokens_per_step": ceiling.tokens_per_step,
        "terms": {
            "weights_s": ceiling.weights_s,
            "kv_s": ceiling.kv_s,
            "state_s": ceiling.state_s,
            "draft_s": ceiling.draft_s,
            "compute_s": ceiling.compute_s,
            "step_s": ceiling.step_s,
        },
    }
