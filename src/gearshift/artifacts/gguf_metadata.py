"""Typed access to one architecture's GGUF keys, where a key may be a scalar or hold one value per layer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NoReturn

from gearshift.artifacts.damage import NO_DECODER, fail
from gearshift.artifacts.gguf import GgufHeader, GgufValue

_MOST_LAYERS = 4096  # a block count beyond this is a damaged file


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """The keys under ``{arch}.`` of one header; ``name`` is the file, for errors."""

    header: GgufHeader
    name: str

    @property
    def family(self) -> str:
        value = self.header.metadata.get("general.architecture")
        if not isinstance(value, str):
            self._fail("general.architecture is missing", "a model file always carries it")
        return value

    @property
    def blocks(self) -> int:
        count = self.number("block_count")
        if not 0 < count <= _MOST_LAYERS:
            self._fail(f"{self.family}.block_count is {count}", NO_DECODER)
        return count

    def find(self, key: str) -> GgufValue | None:
        return self.header.metadata.get(f"{self.family}.{key}")

    def has(self, key: str) -> bool:
        return self.find(key) is not None

    def number(self, key: str, default: int = 0) -> int:
        """A scalar; the largest entry where the file gives one per layer."""
        value = self.find(key)
        if isinstance(value, tuple):
            return max((_whole(entry, default) for entry in value), default=default)
        return _whole(value, default)

    def per_layer(self, key: str, count: int, default: int = 0) -> tuple[int, ...]:
        """One value for each of ``count`` layers, from a scalar or from an array at least that long."""
        value = self.find(key)
        if not isinstance(value, tuple):
            return (self.number(key, default),) * count
        if len(value) < count:
            self._fail(f"{self.family}.{key} has {len(value)} entries for {count} layers", "the file is damaged")
        return tuple(_whole(entry, default) for entry in value[:count])

    def _fail(self, message: str, hint: str) -> NoReturn:
        fail(self.name, message, hint=hint)


def _whole(value: GgufValue | None, default: int) -> int:
    """The number in a value; text, NaN and infinity count as absent."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        return default
    return int(value)
