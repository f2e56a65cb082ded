"""When does speculation pay? Settings (off included) x concurrency x depth, and where it breaks even."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from gearshift.bench.cell import CellResult
from gearshift.bench.outcome import Outcome
from gearshift.bench.plan import CellPlan, ExperimentPlan
from gearshift.bench.reservation import reserved
from gearshift.stats.crossing import crossing

OFF = "off"


@dataclass(frozen=True, slots=True)
class Gain:
    """Total throughput of a setting over that without speculation; the ends are None for single runs."""

    concurrency: int
    ratio: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class BreakEven:
    """Up to how many streams a setting pays at a depth.

    ``concurrency`` is where the ratio crosses 1, None when it does not within the levels measured; between
    ``pays_to`` (clearly better up to here) and ``costs_from`` (clearly worse from here) the data cannot tell.
    """

    setting: str
    depth: int
    concurrency: float | None
    pays_to: int | None
    costs_from: int | None
    gains: tuple[Gain, ...]


def plan(settings: Sequence[CellPlan], levels: Sequence[int], depths: Sequence[int]) -> ExperimentPlan:
    """A cell for each setting, depth and level; settings outermost, because changing one restarts an engine.

    ``settings`` are base plans told apart by their ``setting``, one of them `OFF`; a setting's model or extra keys say
    how it is asked for.
    """
    cells = [
        replace(base, experiment="speculation", depth=depth, concurrency=level, requests=max(base.requests, level))
        for base, depth, level in product(settings, depths, sorted(set(levels)))
    ]
    return ExperimentPlan("speculation", tuple(cells))


def conclude(cells: Sequence[CellResult]) -> Outcome:
    """Break-even per setting and depth, in words and as findings."""
    found = break_evens(cells)
    words = (reserved(_words(item), _behind(item, cells)) for item in found)
    advice = (*words, *_untold(cells, found))
    return Outcome(advice=advice, findings={"break_even": [_json(item) for item in found]})


def _behind(found: BreakEven, cells: Sequence[CellResult]) -> Iterator[CellResult]:
    """The cells that a break-even was drawn from."""
    levels = {gain.concurrency for gain in found.gains}
    for cell in cells:
        asked = cell.plan
        if asked.setting in {OFF, found.setting} and asked.depth == found.depth and asked.concurrency in levels:
            yield cell


def _untold(cells: Sequence[CellResult], found: Sequence[BreakEven]) -> Iterator[str]:
    """Why a setting has no ratio at a depth."""
    told = {(item.setting, item.depth) for item in found}
    asked: dict[tuple[str, int], list[CellResult]] = {}
    for cell in cells:
        if cell.plan.setting != OFF and (point := (cell.plan.setting, cell.plan.depth)) not in told:
            asked.setdefault(point, []).append(cell)
    for point, having in asked.items():
        silent = all(_silent(cell) for cell in having)
        why = "nothing was drafted" if silent else "no level is valid both with and without"
        yield f"{_where(*point)}: no ratio, since {why}"


def _silent(cell: CellResult) -> bool:
    return any(flag.name == "silent_speculation" for flag in cell.flags)


def break_evens(cells: Sequence[CellResult]) -> tuple[BreakEven, ...]:
    """For each setting and depth that has a cell without speculation beside it; valid cells that drafted only."""
    rates = {
        (cell.plan.setting, cell.plan.depth, cell.plan.concurrency): total
        for cell in cells
        if cell.valid and not _silent(cell) and (total := cell.output_tok_s) is not None
    }
    gains: dict[tuple[str, int], list[Gain]] = {}
    for (setting, depth, level), on in sorted(rates.items()):
        off = rates.get((OFF, depth, level))
        if setting != OFF and off is not None:
            low = on.low / off.high if on.low and off.high else None
            high = on.high / off.low if on.high and off.low else None
            gains.setdefault((setting, depth), []).append(Gain(level, on.median / off.median, low, high))
    return tuple(_break_even(setting, depth, found) for (setting, depth), found in gains.items())


def _break_even(setting: str, depth: int, gains: Sequence[Gain]) -> BreakEven:
    better = [gain.concurrency for gain in gains if gain.low is not None and gain.low > 1]
    worse = [gain.concurrency for gain in gains if gain.high is not None and gain.high < 1]
    return BreakEven(
        setting,
        depth,
        crossing([(gain.concurrency, gain.ratio) for gain in gains]),
        max(better, default=None),
        min(worse, default=None),
        tuple(gains),
    )


def _where(setting: str, depth: int) -> str:
    drafts = f"{setting} drafted" if setting.isdigit() else setting
    return f"{drafts} at {depth} tokens"


def _words(found: BreakEven) -> str:
    where = _where(found.setting, found.depth)
    ratios = ", ".join(f"{gain.ratio:.2f}x at {_streams(gain)}" for gain in found.gains)
    if found.pays_to is None and found.costs_from is None and all(gain.low is not None for gain in found.gains):
        return f"{where}: cannot tell, every interval holds the break-even ({ratios})"
    if found.concurrency is not None and _falls_once(found.gains):
        level = round(found.concurrency)
        return f"{where}: pays up to about {level} stream{'s' if level != 1 else ''}{_certain(found)}"
    first, last = found.gains[0], found.gains[-1]
    if all(gain.ratio >= 1 for gain in found.gains):
        return f"{where}: pays at every level measured ({last.ratio:.2f}x at {_streams(last)}){_open(found.gains)}"
    if all(gain.ratio < 1 for gain in found.gains):
        return f"{where}: costs at every level measured ({first.ratio:.2f}x at {_streams(first)}){_open(found.gains)}"
    return f"{where}: pays at some levels only ({ratios})"


def _falls_once(gains: Sequence[Gain]) -> bool:
    """Whether it pays up to some level and costs from there on; a ratio that rises again has no one break-even."""
    pays = [gain.ratio >= 1 for gain in gains]
    return pays == sorted(pays, reverse=True)


def _certain(found: BreakEven) -> str:
    """How far the intervals bear a break-even out; empty for single runs, which have none."""
    if any(gain.low is None for gain in found.gains):
        return ""
    pays = "cannot tell that it pays at any" if found.pays_to is None else f"clearly up to {found.pays_to}"
    costs = "cannot tell from where it costs" if found.costs_from is None else f"costs from {found.costs_from}"
    return f" ({pays}, {costs})"


def _streams(gain: Gain) -> str:
    return f"{gain.concurrency} stream{'s' if gain.concurrency != 1 else ''}"


def _open(gains: Sequence[Gain]) -> str:
    """The levels of which the data cannot tell, where it can of others."""
    held = [gain for gain in gains if gain.low is not None and gain.high and gain.low <= 1 <= gain.high]
    return f", but cannot tell at {', '.join(map(_streams, held))}" if held else ""


def _json(found: BreakEven) -> dict[str, object]:
    return {
        "setting": found.setting,
        "depth": found.depth,
        "concurrency": found.concurrency,
        "pays_to": found.pays_to,
        "costs_from": found.costs_from,
        "gains": [
            {"concurrency": gain.concurrency, "ratio": gain.ratio, "low": gain.low, "high": gain.high}
            for gain in found.gains
        ],
    }
