"""SQL for request and swap records."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from gearshift.domain.records import RequestRecord, SwapRecord

# Columns are named here, not read from the dataclasses: a field without its migration must not break the writer.
REQUEST_COLUMNS = (
    "id", "arrived", "variant", "path", "status", "queued_s", "load_s", "dispatched_s", "first_byte_s",
    "first_token_s", "last_token_s", "ended_s", "tokens_in", "tokens_out", "cached_tokens", "draft_tokens",
    "accepted_tokens", "events", "outcome", "client",
)  # fmt: skip
SWAP_COLUMNS = (
    "at", "variant", "stopped", "drain_s", "stop_s", "memory_s", "load_s", "probe_s", "overhead_s", "total_s",
    "cold", "failure", "slept", "sleep_s", "wake_s", "freed_bytes",
)  # fmt: skip

_NAMES = ("stopped", "slept")  # JSON lists of variant ids


def _insert(table: str, columns: Sequence[str]) -> str:
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608 - names are ours


def _select(table: str, columns: Sequence[str], clock: str) -> str:
    return (
        f"SELECT {', '.join(columns)} FROM {table}"  # noqa: S608 - names are ours, values are bound
        " WHERE (:variant IS NULL OR variant = :variant)"
        f" AND (:since IS NULL OR {clock} >= :since) AND (:until IS NULL OR {clock} < :until)"
        " ORDER BY seq DESC LIMIT :limit"
    )


_INSERT_REQUEST = _insert("request", REQUEST_COLUMNS)
_INSERT_SWAP = _insert("swap", SWAP_COLUMNS)
_SELECT_REQUESTS = _select("request", REQUEST_COLUMNS, "arrived")
_SELECT_SWAPS = _select("swap", SWAP_COLUMNS, "at")


@dataclass(frozen=True, slots=True)
class Window:
    """Which records a query means: of one variant, in ``since <= t < until`` (unix time), at most ``limit``."""

    variant: str | None
    since: float | None
    until: float | None
    limit: int


def insert_requests(connection: sqlite3.Connection, records: Sequence[RequestRecord]) -> None:
    """Append; the caller owns the transaction."""
    rows = ([getattr(record, column) for column in REQUEST_COLUMNS] for record in records)
    connection.executemany(_INSERT_REQUEST, rows)


def insert_swaps(connection: sqlite3.Connection, records: Sequence[SwapRecord]) -> None:
    """Append; the caller owns the transaction."""
    connection.executemany(_INSERT_SWAP, (_swap_row(record) for record in records))


def select_requests(connection: sqlite3.Connection, window: Window) -> tuple[RequestRecord, ...]:
    """Newest first."""
    rows = connection.execute(_SELECT_REQUESTS, asdict(window))
    return tuple(RequestRecord(**dict(row)) for row in rows)


def select_swaps(connection: sqlite3.Connection, window: Window) -> tuple[SwapRecord, ...]:
    """Newest first."""
    return tuple(_swap_record(row) for row in connection.execute(_SELECT_SWAPS, asdict(window)))


def keep_newest(connection: sqlite3.Connection, *, requests: int, swaps: int) -> None:
    """Delete all but the newest so many rows."""
    connection.execute("DELETE FROM request WHERE seq <= (SELECT max(seq) FROM request) - ?", (requests,))
    connection.execute("DELETE FROM swap WHERE seq <= (SELECT max(seq) FROM swap) - ?", (swaps,))


def _swap_row(record: SwapRecord) -> list[object]:
    row = [getattr(record, column) for column in SWAP_COLUMNS]
    for names in _NAMES:
        row[SWAP_COLUMNS.index(names)] = json.dumps(getattr(record, names))
    row[SWAP_COLUMNS.index("cold")] = int(record.cold)
    return row


def _swap_record(row: sqlite3.Row) -> SwapRecord:
    values = dict(row)
    names = {column: tuple(json.loads(values[column] or "[]")) for column in _NAMES}
    return SwapRecord(**values | names | {"cold": bool(values["cold"])})
