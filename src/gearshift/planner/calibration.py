"""`Calibration`: what an earlier start of the same variant showed, as a value and as JSON to keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Calibration:
    """Figures of an earlier start of the same variant that replace modelled lines.

    ``lines``: device id, then ledger line name, to bytes. ``totals``: device id to all bytes seen to be held.
    ``block_size`` and ``bytes_per_block`` settle vLLM cache layouts that no formula covers.
    """

    lines: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    totals: Mapping[str, int] = field(default_factory=dict)
    block_size: int | None = None
    bytes_per_block: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` makes an equal calibration of them."""
        return {
            "lines": {device: dict(lines) for device, lines in self.lines.items()},
            "totals": dict(self.totals),
            "block_size": self.block_size,
            "bytes_per_block": self.bytes_per_block,
        }

    @classmethod
    def from_json(cls, document: object) -> Self:
        """The calibration that `to_json` wrote. Raises ValueError naming the part that is not as it wrote it.

        Keys it does not know are passed over, so that an older release reads what a newer one kept.
        """
        parts = _mapping(document, "a calibration")
        lines = _mapping(parts.get("lines", {}), "lines")
        return cls(
            lines={device: _sizes(sizes, f"lines of {device}") for device, sizes in lines.items()},
            totals=_sizes(parts.get("totals", {}), "totals"),
            block_size=_positive(parts.get("block_size"), "block_size"),
            bytes_per_block=_positive(parts.get("bytes_per_block"), "bytes_per_block"),
        )


def _mapping(value: object, name: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        msg = f"{name} must be an object, not {value!r}"
        raise ValueError(msg)
    return value


def _sizes(value: object, name: str) -> dict[str, int]:
    return {key: _size(size, f"{name}: {key}") for key, size in _mapping(value, name).items()}


def _size(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        msg = f"{name} must be a number of bytes, not {value!r}"
        raise ValueError(msg)
    return value


def _positive(value: object, name: str) -> int | None:
    if value is None:
        return None
    if not (size := _size(value, name)):
        msg = f"{name} must be more than 0"
        raise ValueError(msg)
    return size
