"""What `bench` and `results show` print for a person: a table of cells, the flags in words, the verdict, the advice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from gearshift.cli.output import folded_table
from gearshift.domain.units import format_bytes, format_duration
from gearshift.engines.llamacpp_build import engine_name
from gearshift.stats.wording import format_change, format_detectable, format_paired

Json = Mapping[str, Any]
_MOST_POSITIONS = 5  # an n-gram drafter has 64
_KEYS = frozenset({"SETTING", "STREAMS", "DEPTH"})
_PHASES = ("drain_s", "sleep_s", "stop_s", "memory_s", "load_s", "wake_s", "probe_s", "overhead_s")
_TAILS = {"ttft_s": "TTFT", "tpot_s": "TPOT", "chunk_gap_s": "chunk gap"}
_COLUMNS: Mapping[str, str] = {
    "ttft_s": "TTFT",
    "tpot_s": "TPOT",
    "decode_tok_s": "DECODE tok/s",
    "prefill_tok_s": "PREFILL tok/s",
    "output_tok_s": "OUTPUT tok/s",
}


def render(document: Json, *, width: int | None = None) -> str:
    """The document of ``bench … --json`` as text; tables wider than ``width`` columns are folded."""
    cells = document["cells"]
    kind = document["experiment"]
    lines = [_head(document), "", _swap_table(cells, width) if kind == "swap" else _cell_table(cells, kind, width)]
    loaded = cells if kind in {"concurrency", "saturate"} else ()
    for section in (
        _goodput(document),
        _tails(loaded),
        _engine(cells),
        _ceilings(document),
        _flags(cells),
        _verdict(document),
        document.get("advice", ()),
    ):
        if found := list(section):
            lines += ["", *found]
    return "\n".join(lines)


def _head(document: Json) -> str:
    """The question, the models, the engines, and the variants or servers: of all settings where each has its own."""
    several = (document.get("findings") or {}).get("targets") or {}
    targets = list(several.values()) or [document["target"]]
    models = [target.get("model") for target in targets]
    engines = [
        engine_name(target["engine"], target.get("engine_version")) for target in targets if target.get("engine")
    ]
    named = [str(part) for part in (document["experiment"], *models, *engines, *map(_where, targets)) if part]
    return ", ".join(dict.fromkeys(named))


def _where(target: Json) -> str:
    return str((target.get("provenance") or {}).get("variant") or target.get("url") or target.get("file") or "")


def _cell_table(cells: Sequence[Json], kind: str, width: int | None) -> str:
    columns = [
        "SETTING",
        "STREAMS",
        "DEPTH",
        *_COLUMNS.values(),
        "ACCEPTED",
        "CACHED",
        "KV POOL",
        "NEEDLES",
        "TRIALS",
        "VALID",
    ]
    rows = [
        [
            str(cell.get("setting") or "-"),
            "-" if kind == "saturate" else _count(cell.get("concurrency")),  # an open loop has no limit
            _count(cell.get("depth")),
            *(figure(cell.get(name), name) for name in _COLUMNS),
            _acceptance(cell.get("acceptance")),
            _share(cell.get("cache_hit_share")),
            _share(cell.get("kv_use")),
            _needle(cell.get("needle")),
            _count(cell.get("trials")),
            _validity(cell),
        ]
        for cell in cells
    ]
    return _without_empty(columns, rows, _KEYS, width)


def _validity(cell: Json) -> str:
    """As a report says it: what a flag warns of is told below the table."""
    if not cell.get("valid"):
        return "NO"
    return "flagged" if cell.get("flags") else "yes"


def _without_empty(
    columns: Sequence[str], rows: Sequence[Sequence[str]], named: frozenset[str], width: int | None
) -> str:
    """The table without columns that say nothing in any row; the first that are ``named`` name a row."""
    shown = [place for place in range(len(columns)) if any(row[place] != "-" for row in rows)]
    kept = [columns[place] for place in shown]
    keys = sum(column in named for column in kept)
    return folded_table(kept, [[row[place] for place in shown] for row in rows], keys=keys, width=width)


def _swap_table(cells: Sequence[Json], width: int | None) -> str:
    columns = ["SWAP", "FIRST TOKEN", *(name.removesuffix("_s").upper() for name in _PHASES), "FREED ASLEEP", "TRIALS"]
    rows = [
        [
            cell["setting"],
            figure(cell["first_token_s"], "first_token_s"),
            *(figure(cell.get(name), name, ends=False) for name in _PHASES),
            _bytes(cell.get("freed_bytes")),
            _count(cell["trials"]),
        ]
        for cell in cells
    ]
    return _without_empty(columns, rows, frozenset({"SWAP"}), width)


def figure(value: object, name: str, *, ends: bool = True) -> str:
    """A median with its interval: ``41.2 (39.8..42.7)``, or ``-``."""
    if isinstance(value, Mapping):
        median, low, high = value.get("median", value.get("mean")), value.get("low"), value.get("high")
        if median is None:
            return "-"
        spread = "" if low is None or high is None or not ends else f" ({_one(low, name)}..{_one(high, name)})"
        return _one(median, name) + spread
    return _one(value, name) if isinstance(value, int | float) else "-"


def _one(value: float, name: str) -> str:
    if name.endswith("_tok_s"):
        return f"{value:.3g}" if value < 1000 else f"{value:.0f}"  # noqa: PLR2004 - four digits need no point
    return f"{value * 1000:.3g} ms" if value < 1 else format_duration(value)


def _bytes(found: object) -> str:
    return format_bytes(round(found["median"])) if isinstance(found, Mapping) else "-"


def _goodput(document: Json) -> Iterator[str]:
    """The share of each rate's requests that met the goal, with its interval."""
    for row in (document.get("findings") or {}).get("goodput") or ():
        ends = f"{row['low']:.0%} to {row['high']:.0%}"
        yield f"at {row['rate']:.4g}/s {row['share']:.0%} ({ends}) were within the goal"


def _tails(cells: Sequence[Json]) -> Iterator[str]:
    """Each cell's slow requests: what a median hides."""
    for cell in cells:
        found = [_tail(name, of) for name, of in (cell.get("tail") or {}).items() if of]
        if found:
            where = cell.get("setting") or f"{cell['concurrency']} stream{'s' if cell['concurrency'] != 1 else ''}"
            preempted = cell.get("preemptions")
            yield f"tail at {where}: " + "; ".join([*found, *([f"{preempted:g} preemptions"] if preempted else [])])


def _tail(name: str, of: Json) -> str:
    known = [f"{level} {_one(value, name)}" for level, value in of.items() if value is not None]
    return f"{_TAILS[name]} {', '.join(known)}"


def _engine(cells: Sequence[Json]) -> Iterator[str]:
    """How the client's means stand to the engine's own, over the cells where both are known."""
    views = [cell.get("engine") or {} for cell in cells]
    later = [view["ttft_later_s"] * 1000 for view in views if view.get("ttft_later_s") is not None]
    ratios = [view["tpot_ratio"] for view in views if view.get("tpot_ratio") is not None]
    if later:
        yield f"TTFT is {_range(later, '+.3g')} ms after the engine's own"
    if ratios:
        yield f"TPOT is {_range(ratios, '.4f')} times the engine's own"


def _ceilings(document: Json) -> Iterator[str]:
    """Each cell's share of what the memory's bandwidth allows, and where that bandwidth is from."""
    rows = [row for row in (document.get("findings") or {}).get("ceiling") or () if row.get("share") is not None]
    for row in rows:
        streams = f", {row['concurrency']} streams" if row["concurrency"] != 1 else ""
        where = " ".join([*([row["setting"]] if row.get("setting") else []), f"at depth {row['depth']:,}{streams}"])
        yield f"{where}: {row['share']:.0%} of the ceiling of {_one(row['tok_s'], 'decode_tok_s')} tok/s"
    yield from dict.fromkeys(f"  of {row['card']}: {row['bandwidth_from']}" for row in rows)


def _range(values: Sequence[float], form: str) -> str:
    least, most = format(min(values), form), format(max(values), form)
    return least if least == most else f"{least} to {most}"


def _flags(cells: Sequence[Json]) -> Iterator[str]:
    """Each flag once, with the first detail and the number of cells that have it; what invalidates comes first."""
    found: dict[str, list[Json]] = {}
    for cell in cells:
        for name in cell.get("flags") or ():
            found.setdefault(name, []).append(cell)
    for name, having in found.items():
        detail = (having[0].get("flag_details") or {}).get(name, "")
        where = f" in {len(having)} of {len(cells)} cells" if len(cells) > 1 else ""
        yield f"{click.style(name, fg='yellow')}{where}{': ' + detail if detail else ''}"


def _verdict(document: Json) -> Iterator[str]:
    verdict = document.get("verdict")
    if verdict is None:
        return
    findings = document.get("findings") or {}
    sides = f"{findings.get('b', 'B')} against {findings.get('a', 'A')}: {findings.get('metric', '')}".rstrip(": ")
    low, high, change = (format_change(of, digits=2) if of is not None else "" for of in _interval(verdict))
    ends = f" ({low} to {high})" if low else ""
    seen = verdict["smallest_detectable"]
    least = "" if seen is None else f"; {format_detectable(seen, digits=2)}"
    paired = format_paired(verdict["pairs"])
    yield f"{verdict['result'].replace('_', ' ')}: {sides} {change}{ends}, {paired}{least}"


def _interval(verdict: Json) -> tuple[float | None, float | None, float]:
    return verdict["low"], verdict["high"], verdict["change"]


def _acceptance(found: object) -> str:
    if not isinstance(found, Mapping):
        return "-"
    rates = found["per_position"]
    more = f" ... {len(rates)}" if len(rates) > _MOST_POSITIONS else ""
    return "/".join(f"{rate:.0%}" for rate in rates[:_MOST_POSITIONS]) + more or f"{found['mean_length']:.2f} a step"


def _needle(found: object) -> str:
    return f"{found['found']}/{found['asked']}" if isinstance(found, Mapping) else "-"


def _share(found: object) -> str:
    return f"{found:.0%}" if isinstance(found, int | float) else "-"


def _count(found: object) -> str:
    return "-" if found is None else str(found)
