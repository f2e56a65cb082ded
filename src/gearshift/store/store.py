"""The store as the rest of Gearshift sees it: one object per database file, no open handle."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gearshift.domain.records import RequestRecord, SwapRecord
from gearshift.store.database import session
from gearshift.store.measurements import Measurements
from gearshift.store.sink import Retention, WriterSink
from gearshift.store.traffic import Window, select_requests, select_swaps


@dataclass(frozen=True, slots=True)
class Store:
    """One database file. Queries open it for their own duration and raise StoreError; sinks never raise."""

    path: Path

    @property
    def measurements(self) -> Measurements:
        """Campaigns, experiments, cells and their raw samples."""
        return Measurements(self.path)

    def sink(self, *, retention: Retention | None = None, capacity: int = 8192) -> WriterSink:
        """A running writer for the hot path; close it to flush. ``capacity`` bounds the records waiting in memory."""
        return WriterSink(self.path, retention or Retention(), capacity=capacity)

    def requests(
        self, *, variant: str | None = None, since: float | None = None, until: float | None = None, limit: int = 100
    ) -> tuple[RequestRecord, ...]:
        """Requests that arrived in ``since <= t < until`` (unix time), newest written first."""
        with session(self.path) as connection:
            return select_requests(connection, Window(variant, since, until, limit))

    def swaps(
        self, *, variant: str | None = None, since: float | None = None, until: float | None = None, limit: int = 100
    ) -> tuple[SwapRecord, ...]:
        """Swaps in ``since <= t < until`` (unix time), newest written first."""
        with session(self.path) as connection:
            return select_swaps(connection, Window(variant, since, until, limit))


def open_store(path: Path) -> Store:
    """The store at ``path``. Touches nothing: the file is made and migrated by the first write or query."""
    return Store(path)
