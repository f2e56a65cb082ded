"""The four shapes that every plot of a report has. Pure data; values in the unit that the axis names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """``low`` and ``high`` are the ends of its interval; None for a single run."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """One line."""

    label: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines over one axis each way; the x axis is logarithmic, because depths and levels double."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]


@dataclass(frozen=True, slots=True)
class Bars:
    """Groups of bars: ``series`` gives each label a value a group, None where there is none. Shares from 0 to 1."""

    title: str
    y_label: str
    groups: tuple[str, ...]
    series: tuple[tuple[str, tuple[float | None, ...]], ...]


@dataclass(frozen=True, slots=True)
class Stacks:
    """Horizontal bars of parts. ``unit`` is "bytes" or "s"; a part that a bar does not have is 0."""

    title: str
    unit: str
    bars: tuple[str, ...]
    parts: tuple[tuple[str, tuple[float, ...]], ...]


@dataclass(frozen=True, slots=True)
class Heat:
    """Ratios in a grid, coloured by the side of 1 they are on; the line between the sides is the break-even.

    ``sure`` marks cells whose interval does not hold 1.
    """

    title: str
    x_label: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    sure: tuple[tuple[bool, ...], ...]


Chart = Lines | Bars | Stacks | Heat
