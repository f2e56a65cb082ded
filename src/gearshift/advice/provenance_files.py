"""The weights and the chat template that a command line means, each file read once."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from gearshift.artifacts import (
    Promise,
    cached_snapshot,
    gguf_parts,
    model_template,
    read_template,
    sha256_of,
    template_files,
)
from gearshift.domain.errors import GearshiftError
from gearshift.domain.provenance import WeightFile
from gearshift.domain.units import GIB

_HASHED_BYTES = 2 * GIB
_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
_TEMPLATE_FLAGS = {"--chat-template", "--chat-template-file"}

Stamp = tuple[str, int, int]  # path, bytes, time of change in nanoseconds: what tells a file from a later one


class FileFacts:
    """Hashes of weights and templates, kept while a file has the size and the time of change that it was read with."""

    def __init__(self, hash_file: Callable[[Path], Promise] = sha256_of) -> None:
        self._hash_file = hash_file
        self._hashes: dict[Stamp, str] = {}
        self._templates: dict[tuple[Stamp, ...], str | None] = {}

    def weights(
        self,
        words: Sequence[str],
        folder: Path = Path("/"),
        pinned: Mapping[str, Promise] | None = None,
        *,
        hub: Path | None = None,
    ) -> tuple[WeightFile, ...]:
        """Weight files that ``words`` name, or that lie in a folder they name, each with its size and hash.

        Relative paths begin at ``folder``; a hub id means its snapshot in the cache ``hub``. A hash comes from
        ``pinned`` (by file name) where the size agrees; else small files are read for it, and large ones have none:
        reading them takes longer than many a measurement, and `gearshift lock` does it once.
        """
        find = _Finder(folder, hub, _revision(words))
        values = (find(value) for word in words for value in _values(word))
        named = dict.fromkeys(file for path in values for file in _weight_files(path))
        known = pinned or {}
        return tuple(found for file in named if (found := self._weighed(file, known.get(file.name))))

    def template(self, words: Sequence[str], folder: Path = Path("/"), *, hub: Path | None = None) -> str | None:
        """The hash of the chat template in use: of the one that the words give, else of the model's own.

        None for one that the engine knows by name, and where there is none.
        """
        given = [value for flag, value in pairwise(_split(words)) if flag in _TEMPLATE_FLAGS]
        if given:
            return self._given_template(folder / given[-1], given[-1])
        find = _Finder(folder, hub, _revision(words))
        models = (find(word) for word in _split(words) if word and not word.startswith("-"))
        return next(filter(None, map(self._model_template, models)), None)

    def _weighed(self, file: Path, pinned: Promise | None) -> WeightFile | None:
        stamp = _stamp(file)
        if stamp is None:
            return None
        size = stamp[1]
        sha256 = pinned.sha256 if pinned is not None and pinned.bytes == size else self._hash(file, stamp)
        return WeightFile(str(file), size, sha256)

    def _hash(self, file: Path, stamp: Stamp) -> str | None:
        if stamp[1] > _HASHED_BYTES:
            return None
        if stamp not in self._hashes:
            try:
                self._hashes[stamp] = self._hash_file(file).sha256
            except GearshiftError:
                return None
        return self._hashes[stamp]

    def _given_template(self, file: Path, text: str) -> str | None:
        """Of a file, or of a template that stands in the command line itself."""
        if _is_file(file):
            return self._read_once((file,), lambda: read_template(file).sha256)
        return hashlib.sha256(text.encode()).hexdigest() if "{" in text else None

    def _model_template(self, model: Path) -> str | None:
        if not (_is_file(model) and model.suffix == ".gguf") and not _is_file(model / "config.json"):
            return None

        def read() -> str | None:
            template = model_template(model)
            return template.sha256 if template else None

        return self._read_once(template_files(model), read)

    def _read_once(self, files: Sequence[Path], read: Callable[[], str | None]) -> str | None:
        stamps = tuple(stamp for file in files if (stamp := _stamp(file)))
        if stamps not in self._templates:
            try:
                self._templates[stamps] = read()
            except GearshiftError:
                return None
        return self._templates[stamps]


@dataclass(frozen=True, slots=True)
class _Finder:
    """Where a value of the command line lies: a path from ``folder``, or a hub id's snapshot in the cache ``hub``."""

    folder: Path
    hub: Path | None
    revision: str

    def __call__(self, value: str) -> Path:
        here = self.folder / value
        if self.hub is None or not _HUB_ID.fullmatch(value):
            return here
        return cached_snapshot(self.hub, value, self.revision) or here


def _revision(words: Sequence[str]) -> str:
    return next((value for flag, value in pairwise(_split(words)) if flag == "--revision"), "main")


def _values(word: str) -> Iterator[str]:
    """What of a word may be a path: the word, a flag's value behind ``=``, the texts in a JSON object."""
    found = _texts(word) if word.startswith("{") else _split([word])[-1:]
    yield from filter(None, found)  # an empty one would be the folder itself


def _split(words: Sequence[str]) -> list[str]:
    """``--flag=value`` as two words."""
    return [part for word in words for part in (word.split("=", 1) if word.startswith("--") else (word,))]


def _texts(word: str) -> Iterator[str]:
    try:
        document = json.loads(word)
    except (ValueError, RecursionError):
        return
    yield from (value for value in document.values() if isinstance(value, str))


def _weight_files(path: Path) -> Sequence[Path]:
    """The file, or all parts of a split one; of a folder its safetensors files."""
    if _is_file(path):
        if path.suffix == ".gguf":
            return tuple(part for part in gguf_parts(path) if _is_file(part))
        return (path,) if path.suffix == ".safetensors" else ()
    try:
        return sorted(path.glob("*.safetensors"))
    except (OSError, ValueError):
        return ()


def _stamp(file: Path) -> Stamp | None:
    try:
        stat = file.stat()
    except OSError:
        return None
    return str(file), stat.st_size, stat.st_mtime_ns


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a whole template for a name is too long for one
        return False
