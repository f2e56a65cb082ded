"""GGUF files on this box that could be served: whole models, not projectors or later parts of split files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

_LATER_PART = re.compile(r"-(\d{5})-of-\d{5}\.gguf$", re.IGNORECASE)
_NOT_A_MODEL = re.compile(r"(^|[-_.])(mmproj|imatrix|vocab)([-_.]|$)", re.IGNORECASE)
_NOT_UTF8 = re.compile("[\udc80-\udcff]")  # how Python hands over bytes of a name that are not UTF-8
_MAX_DEPTH = 6


def find_gguf(folders: Iterable[Path], limit: int) -> tuple[Path, ...]:
    """At most ``limit`` model files below the folders, in name order within each; each file once.

    A split file is given by its first part. Folders that cannot be read are passed over.
    """
    files = (path for folder in folders for path in _models_below(folder))
    return tuple(islice(dict.fromkeys(files), limit))


def _models_below(folder: Path) -> Iterator[Path]:
    for current, folders, names in os.walk(folder):
        deep = len(Path(current).relative_to(folder).parts) >= _MAX_DEPTH
        folders[:] = [] if deep else sorted(name for name in folders if not name.startswith("."))
        yield from (Path(current) / name for name in sorted(names) if _is_model(name))


def _is_model(name: str) -> bool:
    if _NOT_UTF8.search(name):
        return False
    part = _LATER_PART.search(name)
    return name.lower().endswith(".gguf") and not _NOT_A_MODEL.search(name) and (part is None or int(part[1]) == 1)
