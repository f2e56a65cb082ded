"""SHA-256 of files, told as it goes, and how a file differs from what was promised of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gearshift.artifacts.damage import fail_to_read

_CHUNK = 8 * 1024**2  # large enough that hashing, not reading, sets the pace


@dataclass(frozen=True, slots=True)
class Promise:
    """What a file has to be: its size in bytes and its hash."""

    bytes: int
    sha256: str

    def __str__(self) -> str:
        return f"{self.bytes} bytes, sha256 {self.sha256}"


def sha256_of(path: Path, advanced: Callable[[int], None] = lambda _: None) -> Promise:
    """Size and hash of a file; ``advanced`` is told of every piece read, in bytes. Raises GearshiftError."""
    digest, size = hashlib.sha256(), 0
    try:
        with path.open("rb") as file:
            while piece := file.read(_CHUNK):
                digest.update(piece)
                size += len(piece)
                advanced(len(piece))
    except OSError as error:
        fail_to_read(path, error)
    return Promise(size, digest.hexdigest())


def difference(path: Path, promised: Promise, advanced: Callable[[int], None] = lambda _: None) -> str | None:
    """How a file differs from its promise, in words; None when it does not.

    A wrong size is told without reading the file. Raises GearshiftError for one that cannot be read.
    """
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return "it is not there"
    except OSError as error:
        fail_to_read(path, error)
    if size != promised.bytes:
        return f"expected {promised.bytes} bytes, found {size}"
    found = sha256_of(path, advanced)
    return None if found == promised else f"expected sha256 {promised.sha256}, found {found.sha256}"
