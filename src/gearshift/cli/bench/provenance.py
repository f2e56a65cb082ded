"""What a measured variant is, as the server that runs it tells: the same from this box and from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gearshift.advice.ledger import ledger_document, read_log
from gearshift.cli.bench.admin import BenchAdmin
from gearshift.domain.errors import GearshiftError

_BUFFERS = ("weights_bytes", "kv_pool_bytes", "state_bytes", "compute_bytes", "graph_bytes")


async def provenance_of(admin: BenchAdmin, variant: str) -> dict[str, object]:
    """Of a variant that runs: what the server tells of it (`domain.provenance`), and ``memory``, where it went.

    Raises AdminError where it does not run any more.
    """
    return {**await admin.provenance(variant), "memory": await _memory(admin, variant)}


async def _memory(admin: BenchAdmin, variant: str) -> Mapping[str, Any] | None:
    """By the engine's own start-up log; None where it does not say."""
    try:
        document = ledger_document(read_log(variant, (await admin.log(variant)).splitlines()))
    except GearshiftError:
        return None
    return {name: document[name] for name in _BUFFERS if document.get(name)} or None
