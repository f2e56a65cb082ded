"""Where header bytes come from: a file in memory, or HTTP ranges. Short reads are the reader's business."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gearshift.artifacts.damage import fail_to_read


class ByteSource(Protocol):
    """Random access to one model file."""

    @property
    def name(self) -> str:
        """What to call it in an error: a path or an address."""
        ...

    @property
    def size(self) -> int:
        """Length in bytes."""
        ...

    def read(self, offset: int, count: int) -> bytes:
        """Up to ``count`` bytes; fewer only where the file ends."""
        ...


@dataclass(frozen=True, slots=True)
class MemorySource:
    """Bytes already at hand: the first megabytes of a download, a memory map, a test."""

    name: str
    data: bytes | mmap.mmap

    @property
    def size(self) -> int:
        return len(self.data)

    def read(self, offset: int, count: int) -> bytes:
        return self.data[offset : offset + count]


@contextmanager
def open_source(path: Path) -> Iterator[MemorySource]:
    """A memory map of the file while the block runs. Raises GearshiftError where it cannot be read."""
    try:
        with path.open("rb") as file, _mapped(file.fileno()) as data:
            yield MemorySource(str(path), data)
    except OSError as error:
        fail_to_read(path, error)


@contextmanager
def _mapped(descriptor: int) -> Iterator[bytes | mmap.mmap]:
    try:
        mapping = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    except ValueError:  # an empty file cannot be mapped
        yield b""
        return
    with mapping:
        yield mapping
