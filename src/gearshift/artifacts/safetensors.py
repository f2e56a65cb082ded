"""Safetensors headers and the index of a sharded checkpoint: names, types and bytes, never data.

A file begins with the header's length (u64, little-endian) and the header itself, a JSON object that maps each
tensor to dtype, shape and data offsets.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gearshift.artifacts.damage import fail
from gearshift.artifacts.json_file import json_object, read_json
from gearshift.artifacts.source import ByteSource

_LENGTH = struct.Struct("<Q")
_LONGEST_HEADER = 100_000_000  # the format's own limit
_MOST_DIMENSIONS = 64


@dataclass(frozen=True, slots=True)
class SafeTensor:
    """One tensor: its type as the file writes it (``BF16``, ``F8_E4M3``, ``U8``) and its stored size."""

    name: str
    type: str
    elements: int
    bytes: int
    shape: tuple[int, ...] = ()


def read_safetensors(source: ByteSource) -> tuple[SafeTensor, ...]:
    """Read one file's header. Raises GearshiftError naming the file and the byte."""
    prefix = source.read(0, _LENGTH.size)
    if len(prefix) < _LENGTH.size:
        fail(source.name, f"byte 0: the file ends after {len(prefix)} of the header's 8 length bytes")
    length = _LENGTH.unpack(prefix)[0]
    if length > min(_LONGEST_HEADER, source.size - _LENGTH.size):
        fail(source.name, f"byte 0: a header of {length} bytes does not fit a file of {source.size}")
    header = json_object(source.read(_LENGTH.size, length), source.name, "byte 8: the header is")
    tensors = tuple(_tensor(source.name, name, entry) for name, entry in header.items() if name != "__metadata__")
    _check_complete(source, header, _LENGTH.size + length)
    return tensors


def read_index(path: Path) -> Mapping[str, str]:
    """``weight_map`` of a ``*.safetensors.index.json``: tensor name to file name."""
    entries = read_json(path).get("weight_map")
    if not isinstance(entries, dict) or not all(isinstance(file, str) for file in entries.values()):
        fail(path, "has no weight_map from tensor names to file names")
    return {str(name): file for name, file in entries.items()}


def _tensor(file: str, name: str, entry: object) -> SafeTensor:
    match entry:
        case {"dtype": str(kind), "shape": [*shape], "data_offsets": [int(begin), int(end)]}:
            if 0 <= begin <= end and len(shape) <= _MOST_DIMENSIONS and all(isinstance(side, int) for side in shape):
                return SafeTensor(name, kind, math.prod(shape), end - begin, tuple(shape))
    return fail(file, f"byte 8: tensor {name!r} has no usable dtype, shape and data_offsets")


def _check_complete(source: ByteSource, header: Mapping[str, Any], data: int) -> None:
    ends = (entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__")
    end = data + max(ends, default=0)
    if end > source.size:
        fail(source.name, f"the tensors end at byte {end}, the file at byte {source.size}")
