"""Connections to the one database file: WAL, a busy deadline, migrations in transactions."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from gearshift.domain.errors import GearshiftError
from gearshift.store.migrations import MIGRATIONS, Migration

_BUSY_S = 5.0


class StoreError(GearshiftError):
    """The database cannot be opened, read or written; the message names the file and SQLite's reason."""


def connect(path: Path, *, migrations: Sequence[Migration] = MIGRATIONS) -> sqlite3.Connection:
    """An open, migrated connection in autocommit mode; creates the file (mode 0600) and its folder.

    Raises:
        StoreError: the file cannot be opened, is no database, or was written by a newer Gearshift.
    """
    try:
        _create_private(path)
        # A writer thread owns its connection, and readers open their own; nothing is shared between threads.
        connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
    except (OSError, sqlite3.Error) as error:
        raise _unusable(path, error) from error
    try:
        _configure(connection)
        migrate(connection, path, migrations)
    except sqlite3.Error as error:
        connection.close()
        raise _unusable(path, error) from error
    except StoreError:
        connection.close()
        raise
    return connection


@contextmanager
def session(path: Path) -> Iterator[sqlite3.Connection]:
    """A short-lived connection for queries. SQLite's errors leave as StoreError."""
    with closing(connect(path)) as connection:
        try:
            yield connection
        except sqlite3.Error as error:
            raise _unusable(path, error) from error


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing. IMMEDIATE, so that the lock is taken (and waited for) before any work is done."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:  # a full disk makes SQLite roll back by itself
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def migrate(connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration]) -> None:
    """Apply what is missing, each migration in its own transaction.

    Raises:
        StoreError: the schema is newer than this program.
    """
    newest = migrations[-1].number
    if (found := _version(connection)) > newest:
        msg = f"{path} has schema {found}; this Gearshift knows {newest}"
        raise StoreError(msg, hint="upgrade Gearshift, or move the file away to start a new one")
    for migration in migrations:
        if migration.number > found:
            _apply(connection, migration)


def _apply(connection: sqlite3.Connection, migration: Migration) -> None:
    with transaction(connection):
        if _version(connection) >= migration.number:  # another process came first while we waited for the lock
            return
        for statement in migration.statements:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {migration.number:d}")


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _configure(connection: sqlite3.Connection) -> None:
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")  # WAL survives a process crash; only a power cut loses the tail
    connection.execute("PRAGMA foreign_keys = ON")


def _create_private(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.touch(mode=0o600)


def _unusable(path: Path, error: Exception) -> StoreError:
    return StoreError(f"{path} cannot be used as database: {error}", hint=_hint(str(error)))


def _hint(reason: str) -> str:
    """What to do about SQLite's reason; its messages are stable English words."""
    lowered = reason.lower()
    if "locked" in lowered:
        return "another process holds the database; end it or try again"
    if "full" in lowered:
        return "free disk space"
    if "not a database" in lowered or "malformed" in lowered:
        return "move the file away; a new one is made at the next start"
    return "check that the folder exists and is writable"
