"""An engine's /metrics, in the exposition text of Prometheus as far as engines use it: name, labels, value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_LINE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Series:
    """One line of the page."""

    name: str
    labels: Mapping[str, str]  # as written, escapes and all
    value: float


def parse(text: str) -> Iterator[Series]:
    """Every series of the page; comments and lines that are no series are passed over."""
    for line in text.splitlines():
        match = None if line.startswith("#") else _LINE.match(line)
        if match is None:
            continue
        try:
            value = float(match[3])
        except ValueError:
            continue
        yield Series(match[1], dict(_LABEL.findall(match[2] or "")), value)
