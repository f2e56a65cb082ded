"""The schema as an append-only list. A released migration is never edited; a change is a new one at the end."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema; ``number`` becomes the database's ``user_version``."""

    number: int
    name: str
    statements: tuple[str, ...]


MIGRATIONS: tuple[Migration, ...] = (
    Migration(
        1,
        "traffic",
        (
            """
            CREATE TABLE request (
                seq INTEGER PRIMARY KEY,
                id TEXT NOT NULL,
                arrived REAL NOT NULL,
                variant TEXT NOT NULL,
                path TEXT NOT NULL,
                status INTEGER NOT NULL,
                queued_s REAL NOT NULL,
                load_s REAL NOT NULL,
                dispatched_s REAL,
                first_byte_s REAL,
                first_token_s REAL,
                last_token_s REAL,
                ended_s REAL NOT NULL,
                tokens_in INTEGER,
                tokens_out INTEGER,
                cached_tokens INTEGER,
                draft_tokens INTEGER,
                accepted_tokens INTEGER,
                events INTEGER NOT NULL,
                outcome TEXT NOT NULL,
                client TEXT
            ) STRICT
            """,
            "CREATE INDEX request_arrived ON request (arrived)",
            "CREATE INDEX request_variant ON request (variant, arrived)",
            """
            CREATE TABLE swap (
                seq INTEGER PRIMARY KEY,
                at REAL NOT NULL,
                variant TEXT NOT NULL,
                stopped TEXT NOT NULL, -- JSON list of variant ids
                drain_s REAL NOT NULL,
                stop_s REAL NOT NULL,
                memory_s REAL NOT NULL,
                load_s REAL NOT NULL,
                probe_s REAL NOT NULL,
                overhead_s REAL NOT NULL,
                total_s REAL NOT NULL,
                cold INTEGER NOT NULL,
                failure TEXT
            ) STRICT
            """,
            "CREATE INDEX swap_at ON swap (at)",
        ),
    ),
)
