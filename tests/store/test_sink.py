"""The writer never blocks or raises, keeps what it can, and says once what it cannot."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gearshift.domain.records import RequestRecord, Sink, SwapRecord
from gearshift.store import Retention, WriterSink, open_store
from gearshift.store.database import connect

REQUEST = RequestRecord(
    id="r1",
    arrived=1000.0,
    variant="qwen:int4",
    path="/v1/chat/completions",
    status=200,
    queued_s=0.5,
    load_s=0.25,
    dispatched_s=0.75,
    first_byte_s=0.8,
    first_token_s=0.9,
    last_token_s=1.9,
    ended_s=2.0,
    tokens_in=10,
    tokens_out=20,
    cached_tokens=None,
    draft_tokens=9,
    accepted_tokens=7,
    events=11,
    outcome="ok",
    client="laptop",
)
SWAP = SwapRecord(
    at=1001.0,
    variant="qwen:int8",
    stopped=("qwen:int4", "qwen:q8"),
    drain_s=0.1,
    stop_s=0.2,
    memory_s=0.3,
    load_s=4.0,
    probe_s=0.5,
    overhead_s=0.01,
    total_s=5.11,
    cold=True,
)


def until(condition: Callable[[], bool], *, deadline_s: float = 5.0) -> None:
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, "the condition did not come true in time"
        time.sleep(0.005)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "state" / "gearshift.db"


@pytest.fixture
def locked(database: Path) -> Iterator[sqlite3.Connection]:
    """The database with another process's write lock on it."""
    open_store(database).requests()
    holder = sqlite3.connect(database, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    yield holder
    holder.close()


def test_records_come_back_as_they_were_given(database: Path) -> None:
    store = open_store(database)
    sink = store.sink()
    sink.request(REQUEST)
    sink.swap(SWAP)

    assert sink.close().written == 2
    assert store.requests() == (REQUEST,)
    assert store.swaps() == (SWAP,)


def test_the_writer_is_a_sink(database: Path) -> None:
    sink = open_store(database).sink()
    port: Sink = sink
    port.request(REQUEST)
    assert sink.close().written == 1


def test_queries_filter_by_variant_and_time_and_give_the_newest_first(database: Path) -> None:
    store = open_store(database)
    sink = store.sink()
    for second in range(10):
        sink.request(replace(REQUEST, id=f"r{second}", arrived=float(second), variant=f"m:v{second % 2}"))
    sink.close()

    found = store.requests(variant="m:v1", since=2, until=9, limit=2)

    assert [record.id for record in found] == ["r7", "r5"]


def test_only_the_newest_rows_are_kept(database: Path) -> None:
    store = open_store(database)
    sink = store.sink(retention=Retention(requests=5, swaps=2, every=1))
    for number in range(40):
        sink.request(replace(REQUEST, id=str(number)))
        sink.swap(replace(SWAP, at=float(number)))
    sink.close()

    assert [record.id for record in store.requests()] == ["39", "38", "37", "36", "35"]
    assert [record.at for record in store.swaps()] == [39.0, 38.0]


def test_a_full_queue_drops_and_counts_instead_of_blocking(database: Path, locked: sqlite3.Connection) -> None:
    sink = open_store(database).sink(capacity=2)
    for _ in range(1000):  # more than one batch and the queue can hold while the writer waits for the lock
        sink.request(REQUEST)

    locked.execute("ROLLBACK")
    health = sink.close()

    assert health.dropped > 0
    assert health.written + health.dropped == 1000


def _dropped(sink: WriterSink, count: int) -> bool:
    return sink.health.dropped == count


def test_a_corrupt_database_is_reported_once_and_serving_goes_on(database: Path) -> None:
    database.parent.mkdir()
    database.write_bytes(b"this is no database" * 1000)
    with capture_logs() as told:
        sink = WriterSink(database, Retention(), capacity=10, retry_s=0.01)
        for sent in range(1, 4):
            sink.request(REQUEST)
            until(partial(_dropped, sink, sent))
        assert sink.health.failure is not None
        assert "not a database" in sink.health.failure
        sink.close()
    assert [line["log_level"] for line in told] == ["warning"]
    assert str(database) in told[0]["cause"]


def test_a_folder_that_cannot_be_made_is_reported_and_writing_recovers_once_it_can(tmp_path: Path) -> None:
    blocker = tmp_path / "state"
    blocker.write_text("a file where the folder should be")
    with capture_logs() as told:
        sink = WriterSink(blocker / "gearshift.db", Retention(), capacity=10, retry_s=0.01)
        sink.request(REQUEST)
        until(lambda: sink.health.failure is not None)

        blocker.unlink()
        sink.request(replace(REQUEST, id="r2"))
        until(lambda: sink.health.written == 1)
        assert sink.close().failure is None

    assert [record.id for record in open_store(blocker / "gearshift.db").requests()] == ["r2"]
    assert told[-1] == {"event": "requests are recorded again", "log_level": "warning", "lost": 1}


def test_a_full_disk_loses_the_batch_and_not_the_database(database: Path) -> None:
    def full(path: Path) -> sqlite3.Connection:
        """SQLite reports "database or disk is full" at a page limit exactly as it does at the end of a disk."""
        connection = connect(path)
        connection.execute("PRAGMA max_page_count = 1")  # that is: no more pages than there are
        return connection

    store = open_store(database)
    sink = WriterSink(database, Retention(), capacity=5000, retry_s=0.01, connect=full)
    sink.request(REQUEST)
    until(lambda: sink.health.written == 1)

    for _ in range(2000):
        sink.request(REQUEST)
    health = sink.close()

    assert health.dropped > 0
    assert health.written + health.dropped == 2001
    assert len(store.requests(limit=5000)) == health.written


def test_close_gives_up_on_a_locked_database_after_its_timeout(database: Path, locked: sqlite3.Connection) -> None:
    sink = open_store(database).sink()
    sink.request(REQUEST)

    assert sink.close(timeout_s=0.05).written == 0
    locked.execute("ROLLBACK")
    until(lambda: sink.health.written == 1)
