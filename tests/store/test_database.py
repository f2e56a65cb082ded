"""Opening, migrating and refusing a database file."""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from dataclasses import fields
from pathlib import Path

import pytest

from gearshift.domain.records import RequestRecord, SwapRecord
from gearshift.store import StoreError, open_store
from gearshift.store.database import connect, transaction
from gearshift.store.migrations import MIGRATIONS, Migration
from gearshift.store.traffic import REQUEST_COLUMNS, SWAP_COLUMNS


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "state" / "gearshift.db"


def version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def test_opening_touches_nothing_and_the_first_query_makes_a_private_file(database: Path) -> None:
    store = open_store(database)
    assert not database.parent.exists()

    assert store.requests() == ()

    assert stat.S_IMODE(database.stat().st_mode) == 0o600
    assert version(database) == MIGRATIONS[-1].number


def test_migrations_are_numbered_without_gaps() -> None:
    assert [migration.number for migration in MIGRATIONS] == list(range(1, len(MIGRATIONS) + 1))


def test_every_table_is_strict(database: Path) -> None:
    with closing(connect(database)) as connection:
        rows = connection.execute("SELECT name, strict FROM pragma_table_list WHERE schema = 'main' AND type = 'table'")
        lax = {row["name"] for row in rows if not row["strict"] and not row["name"].startswith("sqlite_")}
    assert lax == set()


def test_every_field_of_a_record_has_its_column() -> None:
    assert {field.name for field in fields(RequestRecord)} == set(REQUEST_COLUMNS)
    assert {field.name for field in fields(SwapRecord)} == set(SWAP_COLUMNS)


def test_a_failing_migration_leaves_the_version_before_it(database: Path) -> None:
    good = Migration(1, "good", ("CREATE TABLE kept (a INTEGER) STRICT",))
    bad = Migration(2, "bad", ("CREATE TABLE half (a INTEGER) STRICT", "CREATE TABLE half (a INTEGER) STRICT"))

    with pytest.raises(StoreError, match="already exists"):
        connect(database, migrations=(good, bad))

    assert version(database) == 1
    with closing(sqlite3.connect(database)) as connection:
        names = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema")}
    assert names == {"kept"}


def test_a_newer_schema_is_refused_with_the_way_out(database: Path) -> None:
    newer = Migration(MIGRATIONS[-1].number + 1, "later", ("CREATE TABLE later (a INTEGER) STRICT",))
    connect(database, migrations=(*MIGRATIONS, newer)).close()

    with pytest.raises(StoreError, match="has schema") as caught:
        open_store(database).requests()

    assert caught.value.hint is not None
    assert "upgrade" in caught.value.hint


def test_a_file_that_is_no_database_is_an_error_with_its_path(database: Path) -> None:
    database.parent.mkdir()
    database.write_bytes(b"plain text, and long enough to be read as a header" * 40)

    with pytest.raises(StoreError, match=str(database)) as caught:
        open_store(database).requests()

    assert caught.value.hint == "move the file away; a new one is made at the next start"


def test_a_transaction_that_fails_leaves_nothing(database: Path) -> None:
    with closing(connect(database)) as connection:
        connection.execute("CREATE TABLE t (a INTEGER) STRICT")

        def fail_halfway() -> None:
            with transaction(connection):
                connection.execute("INSERT INTO t VALUES (1)")
                connection.execute("INSERT INTO t VALUES ('no number')")

        with pytest.raises(sqlite3.IntegrityError):
            fail_halfway()
        assert connection.execute("SELECT count(*) FROM t").fetchone()[0] == 0
