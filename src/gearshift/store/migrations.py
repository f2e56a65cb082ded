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
    Migration(
        2,
        "measurements",
        (
            """
            CREATE TABLE campaign (
                id INTEGER PRIMARY KEY,
                name TEXT NOT NULL,
                started REAL NOT NULL,
                plan TEXT NOT NULL
            ) STRICT
            """,
            """
            CREATE TABLE experiment (
                id INTEGER PRIMARY KEY,
                campaign INTEGER REFERENCES campaign (id) ON DELETE SET NULL,
                name TEXT NOT NULL,
                tool TEXT NOT NULL, -- whose definitions the figures follow
                tool_version TEXT,
                model TEXT,
                started REAL NOT NULL,
                ended REAL,
                state TEXT NOT NULL, -- running, done, interrupted, failed
                target TEXT NOT NULL, -- provenance
                plan TEXT NOT NULL,
                outcome TEXT -- verdict and advice
            ) STRICT
            """,
            "CREATE INDEX experiment_started ON experiment (started)",
            """
            CREATE TABLE cell (
                id INTEGER PRIMARY KEY,
                experiment INTEGER NOT NULL REFERENCES experiment (id) ON DELETE CASCADE,
                key TEXT NOT NULL,
                setting TEXT NOT NULL,
                concurrency INTEGER,
                depth INTEGER,
                valid INTEGER NOT NULL,
                plan TEXT NOT NULL,
                figures TEXT NOT NULL -- derived from the samples; kept for reading
            ) STRICT
            """,
            "CREATE INDEX cell_experiment ON cell (experiment)",
            "CREATE INDEX cell_key ON cell (key)",
            """
            CREATE TABLE trial (
                id INTEGER PRIMARY KEY,
                cell INTEGER NOT NULL REFERENCES cell (id) ON DELETE CASCADE,
                boot INTEGER NOT NULL,
                begun REAL NOT NULL,
                counters TEXT,
                watch TEXT NOT NULL
            ) STRICT
            """,
            "CREATE INDEX trial_cell ON trial (cell)",
            """
            CREATE TABLE sample (
                id INTEGER PRIMARY KEY,
                trial INTEGER NOT NULL REFERENCES trial (id) ON DELETE CASCADE,
                started_s REAL NOT NULL,
                ended_s REAL NOT NULL,
                planned_s REAL,
                status INTEGER,
                error TEXT,
                headers_s REAL,
                first_answer_s REAL,
                chunk_s BLOB NOT NULL, -- little-endian doubles
                prompt_tokens INTEGER,
                completion_tokens INTEGER,
                cached_tokens INTEGER,
                reasoning_tokens INTEGER,
                token_ids INTEGER,
                engine TEXT -- the engine's own timings
            ) STRICT
            """,
            "CREATE INDEX sample_trial ON sample (trial)",
        ),
    ),
    Migration(
        3,
        "sleep and wake of a swap",
        (
            "ALTER TABLE swap ADD COLUMN slept TEXT",  # JSON list of variant ids; NULL in older rows
            "ALTER TABLE swap ADD COLUMN sleep_s REAL",
            "ALTER TABLE swap ADD COLUMN wake_s REAL",
            "ALTER TABLE swap ADD COLUMN freed_bytes INTEGER",
        ),
    ),
    Migration(
        4,
        "process of an experiment",
        ("ALTER TABLE experiment ADD COLUMN process TEXT",),  # who runs it: a run that was killed cannot say so itself
    ),
)
