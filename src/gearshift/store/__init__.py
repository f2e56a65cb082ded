"""SQLite: requests, swaps and measurements. The only room that knows SQL.

Opening is lazy: `open_store` touches nothing, so a server starts whatever state its database is in.
"""

from gearshift.store.database import StoreError
from gearshift.store.measurements import (
    CellRecord,
    ExperimentRecord,
    Measurements,
    SampleRecord,
    StoredCell,
    StoredExperiment,
    TrialRecord,
)
from gearshift.store.sink import Retention, SinkHealth, WriterSink
from gearshift.store.store import Store, open_store

__all__ = [
    "CellRecord",
    "ExperimentRecord",
    "Measurements",
    "Retention",
    "SampleRecord",
    "SinkHealth",
    "Store",
    "StoreError",
    "StoredCell",
    "StoredExperiment",
    "TrialRecord",
    "WriterSink",
    "open_store",
]
