"""Draws a chart as SVG whose text is text and whose colours the page decides, for light and dark alike.

The only module that knows matplotlib, which is imported when the first chart is drawn: an optional dependency that only
reports need. Colours are drawn as stand-ins and then replaced by the page's CSS variables.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gearshift.domain.errors import GearshiftError
from gearshift.domain.units import GIB, MIB
from gearshift.report.charts.shapes import Bars, Chart, Heat, Lines, Stacks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INK, _MUTED, _GRID, _PAYS, _COSTS = "#010101", "#020202", "#030303", "#040404", "#050505"
_SERIES = ("#0a0101", "#0a0202", "#0a0303", "#0a0404", "#0a0505", "#0a0606", "#0a0707", "#0a0808")
_VARIABLES = {
    _INK: "--ink", _MUTED: "--muted", _GRID: "--grid", _PAYS: "--pays", _COSTS: "--costs",
    **{colour: f"--c{number}" for number, colour in enumerate(_SERIES, 1)},
}  # fmt: skip
_MARKERS = (("o", "●"), ("s", "■"), ("^", "▲"), ("D", "◆"), ("v", "▼"), ("P", "✚"))
_WIDTH, _HEIGHT = 480, 290  # pixels of the SVG's own space: text stays readable when a phone shrinks it by a third
_DPI = 72  # matplotlib's SVG has one unit a point
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none", "svg.hashsalt": "gearshift", "font.family": "sans-serif", "font.size": 12,
    "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": _MUTED, "axes.labelcolor": _INK,
    "text.color": _INK, "text.parse_math": False, "xtick.color": _INK, "ytick.color": _INK,
    "axes.grid": True, "axes.grid.axis": "y",
    "grid.color": _GRID, "axes.axisbelow": True, "axes.titlesize": 13, "axes.titlelocation": "left",
    "xtick.minor.size": 0, "ytick.minor.size": 0,
}  # fmt: skip
_TEN_THOUSAND = 10_000
_TICK_RATIO = 1.4  # between neighbouring labels of a logarithmic axis
_STRONG, _FAINT, _FULL_RATIO = 0.75, 0.12, 1.5  # opacity of a heat map's cells, and the ratio that has the strongest


@dataclass(frozen=True, slots=True)
class Key:
    """One entry of a legend: its mark, the CSS variable of its colour, its words."""

    mark: str
    variable: str
    label: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """A chart as SVG, and its legend, which the page sets because it can wrap it."""

    svg: str
    legend: tuple[Key, ...]


def draw(chart: Chart, *, number: int) -> Drawing:
    """``number`` is the chart's own on its page: it keeps the ids of several SVGs apart.

    Raises:
        GearshiftError: matplotlib is not installed.
    """
    with _axes(_height(chart)) as (axes, finished):
        legend = _shape(axes, chart)
        axes.set_title(chart.title, pad=10)
        svg = finished()
    return Drawing(_inline(svg, number), legend)


def _shape(axes: Axes, chart: Chart) -> tuple[Key, ...]:
    match chart:
        case Lines():
            return _lines(axes, chart)
        case Bars():
            return _bars(axes, chart)
        case Stacks():
            return _stacks(axes, chart)
        case Heat():
            return _heat(axes, chart)


def _height(chart: Chart) -> int:
    match chart:
        case Stacks():
            return 90 + 44 * len(chart.bars)
        case Heat():
            return 100 + 40 * len(chart.rows)
        case _:
            return _HEIGHT


@contextmanager
def _axes(height: int) -> Iterator[tuple[Axes, Callable[[], str]]]:
    """Axes to draw on, and what gives the finished SVG; no global state of matplotlib is changed."""
    try:
        import matplotlib as mpl  # noqa: PLC0415 - optional and slow to import
        from matplotlib.figure import Figure  # noqa: PLC0415 - likewise
    except ImportError as error:
        hint = "install it: pip install 'gearshift[report]'; or write --format markdown"
        raise GearshiftError("an HTML report needs matplotlib for its charts", hint=hint) from error
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH / _DPI, height / _DPI), dpi=_DPI, layout="constrained")

        def finished() -> str:
            out = io.StringIO()
            figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
            return out.getvalue()

        yield figure.add_subplot(), finished


def _lines(axes: Axes, chart: Lines) -> tuple[Key, ...]:
    keys = []
    for number, series in enumerate(chart.series):
        (marker, mark), colour = _MARKERS[number % len(_MARKERS)], _colour(number)
        xs, ys = [point.x for point in series.points], [point.y for point in series.points]
        down = [point.y - point.low if point.low is not None else 0.0 for point in series.points]
        up = [point.high - point.y if point.high is not None else 0.0 for point in series.points]
        # A median of all requests may lie outside the interval of few trials by a rounding error.
        errors = [[max(0.0, end) for end in ends] for ends in (down, up)]
        axes.errorbar(xs, ys, yerr=errors, color=colour, marker=marker, markersize=6, capsize=4, linewidth=1.8)
        keys.append(Key(mark, _VARIABLES[colour], series.label))
    places = sorted({point.x for series in chart.series for point in series.points})
    # Logarithmic, but for a depth of 0: there the part below the least depth is linear.
    axes.set_xscale("symlog", base=2, linthresh=min(place for place in places if place > 0))
    ticks = list(_spread(places))
    axes.set_xticks(ticks, [_short(place) for place in ticks])
    highest = max(point.high or point.y for series in chart.series for point in series.points)
    axes.set_ylim(0, highest * 1.08)
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(chart.y_label)
    return tuple(keys)


def _spread(places: Sequence[float]) -> Iterator[float]:
    """Places far enough apart for their labels, the first among them."""
    last: float | None = None
    for place in places:
        if last is None or place >= last * _TICK_RATIO:
            yield place
            last = place


def _bars(axes: Axes, chart: Bars) -> tuple[Key, ...]:
    width = 0.8 / len(chart.series)
    keys = []
    for number, (label, values) in enumerate(chart.series):
        colour = _colour(number)
        places = [group - 0.4 + width * (number + 0.5) for group in range(len(chart.groups))]
        axes.bar(places, [value or 0.0 for value in values], width * 0.9, color=colour)
        keys.append(Key("■", _VARIABLES[colour], label))
    long = any(len(group) > 6 for group in chart.groups)  # noqa: PLR2004 - such labels run into each other
    slant, end = (20, "right") if long else (0, "center")
    axes.set_xticks(range(len(chart.groups)), chart.groups, rotation=slant, ha=end)
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    axes.set_ylabel(chart.y_label)
    return tuple(keys) if len(keys) > 1 else ()


def _stacks(axes: Axes, chart: Stacks) -> tuple[Key, ...]:
    scale, unit = _unit(chart)
    ends = [0.0] * len(chart.bars)
    keys = []
    for number, (label, values) in enumerate(chart.parts):
        colour = _colour(number)
        scaled = [value / scale for value in values]
        axes.barh(range(len(chart.bars)), scaled, 0.42, left=list(ends), color=colour)
        ends = [end + value for end, value in zip(ends, scaled, strict=True)]
        keys.append(Key("■", _VARIABLES[colour], label))
    for place, (bar, end) in enumerate(zip(chart.bars, ends, strict=True)):
        axes.text(0, place - 0.32, f"{bar}: {end:.3g} {unit}", va="bottom", fontsize=11)
    axes.set_ylim(len(chart.bars) - 0.5, -0.8)
    axes.set_yticks([])
    axes.grid(visible=True, axis="x")
    axes.set_xlabel("seconds" if unit == "s" else unit)
    return tuple(keys)


def _unit(chart: Stacks) -> tuple[float, str]:
    if chart.unit != "bytes":
        return 1.0, chart.unit
    longest = max(sum(values) for values in zip(*(values for _, values in chart.parts), strict=True))
    return (GIB, "GiB") if longest >= GIB else (MIB, "MiB")


def _heat(axes: Axes, chart: Heat) -> tuple[Key, ...]:
    from matplotlib.patches import Rectangle  # noqa: PLC0415 - optional and slow to import

    for row, values in enumerate(chart.values):
        for column, ratio in enumerate(values):
            if ratio is None:
                continue
            colour, strength = (_PAYS if ratio >= 1 else _COSTS), _strength(ratio)
            axes.add_patch(Rectangle((column, row), 1, 1, facecolor=colour, alpha=strength, linewidth=0))
            mark = "*" if chart.sure[row][column] else ""
            axes.text(column + 0.5, row + 0.5, f"{ratio:.2f}{mark}", ha="center", va="center")
    for start, end in break_even(chart.values):
        axes.plot(*zip(start, end, strict=True), color=_INK, linewidth=2.5, solid_capstyle="round")
    axes.set_xlim(0, len(chart.columns))
    axes.set_ylim(len(chart.rows), 0)
    axes.grid(visible=False)
    axes.set_xticks([place + 0.5 for place in range(len(chart.columns))], chart.columns)
    axes.set_yticks([place + 0.5 for place in range(len(chart.rows))], chart.rows)
    axes.set_xlabel(chart.x_label)
    return Key("■", "--pays", "pays"), Key("■", "--costs", "costs")


def break_even(values: Sequence[Sequence[float | None]]) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """The edges (column, row) between neighbours on different sides of 1, within a row and between rows."""
    for row, line in enumerate(values):
        for column, ratio in enumerate(line):
            right = line[column + 1] if column + 1 < len(line) else None
            below = values[row + 1][column] if row + 1 < len(values) else None
            if _apart(ratio, right):
                yield (column + 1, row), (column + 1, row + 1)
            if _apart(ratio, below):
                yield (column, row + 1), (column + 1, row + 1)


def _apart(one: float | None, other: float | None) -> bool:
    return one is not None and other is not None and (one >= 1) != (other >= 1)


def _strength(ratio: float) -> float:
    distance = max(ratio, 1 / ratio if ratio else _FULL_RATIO) - 1
    return min(_STRONG, _FAINT + (_STRONG - _FAINT) * distance / (_FULL_RATIO - 1))


def _colour(number: int) -> str:
    return _SERIES[number % len(_SERIES)]


def _short(place: float) -> str:
    return f"{place / 1000:.0f}k" if place >= _TEN_THOUSAND else f"{place:,.0f}"


def _inline(svg: str, number: int) -> str:
    """The SVG as an element of a page: no prolog, no fixed size, ids of its own, the page's font and colours."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*" height="[^"]*"|(<svg[^>]*?) height="[^"]*" width="[^"]*"', r"\1\2", svg)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>g{number}-", svg)
    svg = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px; font-family: inherit", svg)
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    return svg.strip()
