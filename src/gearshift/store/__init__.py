"""SQLite: requests, swaps and measurements. The only room that knows SQL.

Opening is lazy: `open_store` touches nothing, so a server starts whatever state its database is in.
"""

from gearshift.store.database import StoreError
from gearshift.store.sink import Retention, SinkHealth, WriterSink
from gearshift.store.store import Store, open_store

__all__ = ["Retention", "SinkHealth", "Store", "StoreError", "WriterSink", "open_store"]
