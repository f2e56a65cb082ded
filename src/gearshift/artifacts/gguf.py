"""GGUF header walker: metadata and tensor directory of one file, without the vocabulary and the weights.

The `gguf` package builds an array per vocabulary entry and needs ten seconds for 248k tokens; a header only
has to step over them. Format: ggml's docs/gguf.md, versions 2 and 3, little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from gearshift.artifacts.ggml_types import GGML_TYPES
from gearshift.artifacts.gguf_cursor import Cursor
from gearshift.artifacts.source import ByteSource

GgufValue = bool | int | float | str | tuple["bool | int | float | str", ...]

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_KEPT_ENTRIES = 4096  # longer arrays are vocabulary; per-layer hyperparameters never come near
_MAX_DIMENSIONS = 4
_DEFAULT_ALIGNMENT = 32

_STRING, _ARRAY, _BOOL = 8, 9, 7
_SCALARS = {
    0: struct.Struct("<B"), 1: struct.Struct("<b"), 2: struct.Struct("<H"), 3: struct.Struct("<h"),
    4: struct.Struct("<I"), 5: struct.Struct("<i"), 6: struct.Struct("<f"), 7: struct.Struct("<B"),
    10: struct.Struct("<Q"), 11: struct.Struct("<q"), 12: struct.Struct("<d"),
}  # fmt: skip
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """One entry of the tensor directory; ``offset`` counts from the start of the data section."""

    name: str
    type: str
    elements: int
    bytes: int
    offset: int


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What a GGUF file says before its weights.

    ``metadata`` holds every key but those of long arrays; ``lengths`` the entry count of every array.
    """

    version: int
    metadata: Mapping[str, GgufValue]
    lengths: Mapping[str, int]
    tensors: tuple[GgufTensor, ...]
    data_offset: int

    @property
    def end(self) -> int:
        """Bytes a whole file has at least: the end of its last tensor."""
        return self.data_offset + max((tensor.offset + tensor.bytes for tensor in self.tensors), default=0)


def read_gguf(source: ByteSource) -> GgufHeader:
    """Walk one file's header. Raises GearshiftError naming the file, the byte and what was found there."""
    cursor = Cursor(source)
    version = _version(cursor)
    tensor_count, key_count = (cursor.unpack(_U64, what) for what in ("the tensor count", "the key count"))
    metadata: dict[str, GgufValue] = {}
    lengths: dict[str, int] = {}
    for _ in range(key_count):
        _read_pair(cursor, metadata, lengths)
    tensors = tuple(_read_tensor(cursor) for _ in _counted(cursor, tensor_count))
    return GgufHeader(version, metadata, lengths, tensors, _aligned(cursor, metadata))


def _counted(cursor: Cursor, count: int) -> range:
    smallest = 8 + 4 + 4 + 8  # an entry with an empty name and no dimension
    if count * smallest > cursor.left:
        cursor.fail(f"the directory promises {count} tensors, more than the file has bytes for")
    return range(count)


def _version(cursor: Cursor) -> int:
    magic = cursor.take(4, "the magic")
    if magic != _MAGIC:
        cursor.fail(f"not a GGUF file: it begins with {magic!r} instead of {_MAGIC!r}", at=0)
    version = cursor.unpack(_U32, "the version")
    if version not in _VERSIONS:
        cursor.fail(f"GGUF version {version} is not one of {_VERSIONS} (or the file is big-endian)", at=4)
    return version


def _read_pair(cursor: Cursor, metadata: dict[str, GgufValue], lengths: dict[str, int]) -> None:
    key = cursor.string("a key")
    kind = cursor.unpack(_U32, f"the type of {key}")
    if kind != _ARRAY:
        metadata[key] = _scalar(cursor, kind, key)
        return
    entry = cursor.unpack(_U32, f"the entry type of {key}")
    count = cursor.unpack(_U64, f"the length of {key}")
    lengths[key] = count
    if count <= _KEPT_ENTRIES:
        metadata[key] = tuple(_scalar(cursor, entry, key) for _ in range(count))
    elif entry == _STRING:
        cursor.skip_strings(count, key)
    else:
        cursor.skip(count * _layout(cursor, entry, key).size, key)


def _scalar(cursor: Cursor, kind: int, key: str) -> bool | int | float | str:
    if kind == _STRING:
        return cursor.string(f"the value of {key}")
    value = cursor.unpack_any(_layout(cursor, kind, key), f"the value of {key}")
    return bool(value) if kind == _BOOL else value


def _layout(cursor: Cursor, kind: int, key: str) -> struct.Struct:
    layout = _SCALARS.get(kind)
    if layout is None:  # nested arrays are allowed by the format and written by nobody
        cursor.fail(f"{key} has value type {kind}, which this reader does not know")
    return layout


def _read_tensor(cursor: Cursor) -> GgufTensor:
    name = cursor.string("a tensor's name")
    dimensions = cursor.unpack(_U32, f"the dimensions of {name}")
    if dimensions > _MAX_DIMENSIONS:
        cursor.fail(f"tensor {name} claims {dimensions} dimensions, at most {_MAX_DIMENSIONS} exist")
    elements = 1
    for _ in range(dimensions):
        elements *= cursor.unpack(_U64, f"the shape of {name}")
    number = cursor.unpack(_U32, f"the type of {name}")
    kind = GGML_TYPES.get(number)
    if kind is None:
        cursor.fail(f"tensor {name} has type {number}, which this reader does not know")
    offset = cursor.unpack(_U64, f"the offset of {name}")
    return GgufTensor(name, kind.name, elements, kind.size(elements), offset)


def _aligned(cursor: Cursor, metadata: Mapping[str, GgufValue]) -> int:
    given = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
    alignment = given if isinstance(given, int) and given > 0 else _DEFAULT_ALIGNMENT
    return -(-cursor.position // alignment) * alignment
