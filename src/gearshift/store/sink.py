"""The writer thread behind `domain.records.Sink`: a bounded queue, batches, and a database that may fail."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Full, Queue

import structlog

from gearshift.domain.records import RequestRecord, SwapRecord
from gearshift.store.database import connect, transaction
from gearshift.store.traffic import insert_requests, insert_swaps, keep_newest

log = structlog.get_logger(__name__)

_BATCH = 512
_RETRY_S = 5.0  # a broken database is tried again this often; records in between are counted as dropped

Record = RequestRecord | SwapRecord


@dataclass(frozen=True, slots=True)
class Retention:
    """How many rows are kept; older ones are deleted as new ones come."""

    requests: int = 200_000
    swaps: int = 20_000
    every: int = 1_000  # rows written between two prunings


@dataclass(frozen=True, slots=True)
class SinkHealth:
    """What became of the records so far. ``failure`` is why writing fails at the moment, None when it works."""

    written: int
    dropped: int
    failure: str | None


class WriterSink:
    """Takes records without blocking or raising, and writes them in batches on its own thread.

    A full queue or a failing database drops records and counts them; the first failure and the recovery are each
    logged once. The thread ends at `close`, or with the process (what is queued then is lost).
    """

    def __init__(
        self,
        path: Path,
        retention: Retention,
        *,
        capacity: int,
        retry_s: float = _RETRY_S,
        connect: Callable[[Path], sqlite3.Connection] = connect,
    ) -> None:
        """``connect`` opens the database, on the writer's thread, as often as one was lost."""
        self._path = path
        self._connect = connect
        self._retention = retention
        self._retry_s = retry_s
        self._queue: Queue[Record] = Queue(capacity)
        self._closing = threading.Event()
        self._connection: sqlite3.Connection | None = None
        self._refused = 0  # by a full queue; written by the callers' thread only
        self._lost = 0  # by a failing database; this and the next three are written by the writer thread only
        self._written = 0
        self._unpruned = retention.every  # the first batch prunes what an earlier run left
        self._failure: str | None = None
        self._thread = threading.Thread(target=self._run, name="gearshift-store", daemon=True)
        self._thread.start()

    @property
    def health(self) -> SinkHealth:
        return SinkHealth(self._written, self._refused + self._lost, self._failure)

    def request(self, record: RequestRecord) -> None:
        self._offer(record)

    def swap(self, record: SwapRecord) -> None:
        self._offer(record)

    def close(self, *, timeout_s: float = 5.0) -> SinkHealth:
        """Write what is queued and end the thread; gives up after ``timeout_s``. Idempotent."""
        self._closing.set()
        self._thread.join(timeout_s)
        return self.health

    def _offer(self, record: Record) -> None:
        try:
            self._queue.put_nowait(record)
        except Full:
            self._refused += 1

    def _run(self) -> None:
        while not (self._closing.is_set() and self._queue.empty()):
            if batch := self._take():
                self._write(batch)
        if self._connection is not None:
            self._connection.close()

    def _take(self) -> list[Record]:
        """One batch; waits a moment for its first record, so that `close` is noticed."""
        batch: list[Record] = []
        try:
            batch.append(self._queue.get(timeout=0.2))
            while len(batch) < _BATCH:
                batch.append(self._queue.get_nowait())
        except Empty:
            pass
        return batch

    def _write(self, batch: Sequence[Record]) -> None:
        try:
            if self._connection is None:
                self._connection = self._connect(self._path)
            self._insert(self._connection, batch)
        except Exception as error:  # noqa: BLE001 - whatever a record or a disk does, the writer lives on
            self._failed(error, len(batch))
        else:
            self._recovered()
            self._written += len(batch)

    def _insert(self, connection: sqlite3.Connection, batch: Sequence[Record]) -> None:
        with transaction(connection):
            insert_requests(connection, [record for record in batch if isinstance(record, RequestRecord)])
            insert_swaps(connection, [record for record in batch if isinstance(record, SwapRecord)])
            self._unpruned += len(batch)
            if self._unpruned >= self._retention.every:
                keep_newest(connection, requests=self._retention.requests, swaps=self._retention.swaps)
                self._unpruned = 0

    def _failed(self, error: Exception, lost: int) -> None:
        """Count, say so once, and start over with a fresh connection after a pause (none when closing)."""
        self._lost += lost
        if self._failure is None:
            log.warning("requests are not recorded; serving goes on, writing is tried again", cause=str(error))
        self._failure = str(error)
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._closing.wait(self._retry_s)

    def _recovered(self) -> None:
        if self._failure is not None:
            log.warning("requests are recorded again", lost=self._lost + self._refused)
            self._failure = None
