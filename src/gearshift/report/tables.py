"""Cells as a table: one row each, without the columns that say nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from gearshift.domain.units import format_bytes
from gearshift.report.blocks import Table
from gearshift.report.documents import Cell, Experiment
from gearshift.report.words import LABELS, NONE, figure, number, place, positions, share, tokens

PHASES = ("drain_s", "sleep_s", "stop_s", "memory_s", "load_s", "wake_s", "probe_s", "overhead_s")
_SERVING = ("ttft_s", "tpot_s", "chunk_gap_s", "decode_tok_s", "prefill_tok_s", "output_tok_s", "e2e_s")
_LOADED = {"concurrency", "saturate"}
_TAILS = (("ttft_s", "TTFT"), ("tpot_s", "TPOT"), ("chunk_gap_s", "chunk gap"))
_LEVELS = ("p90", "p99", "max")
Column = tuple[str, Callable[[Cell], str]]


def cell_table(experiment: Experiment) -> Table:
    """The experiment's cells. An invalid one says so in its last column."""
    columns = _swap_columns() if experiment.kind == "swap" else _serving_columns()
    if experiment.kind == "saturate":
        columns[-2:-2] = [("within the goal", _goodput(experiment))]
    rows = [tuple(read(cell) for _, read in columns) for cell in experiment.cells]
    return without_empty(tuple(name for name, _ in columns), rows)


def _goodput(experiment: Experiment) -> Callable[[Cell], str]:
    """The share of a rate's requests that were good, with its interval."""
    rows = {f"{row['rate']:.4g}/s": row for row in experiment.findings.get("goodput") or ()}

    def read(cell: Cell) -> str:
        row = rows.get(cell.setting)
        return NONE if row is None else f"{share(row['share'])} ({share(row['low'])} to {share(row['high'])})"

    return read


def tail_table(experiment: Experiment) -> Table | None:
    """The slow requests of cells under load, which a median hides; None where the data has none."""
    cells = [cell for cell in experiment.cells if cell.tail]
    if experiment.kind not in _LOADED or not cells:
        return None
    columns = ["cell", *(f"{label} {level}" for _, label in _TAILS for level in _LEVELS), "preemptions"]
    rows = [
        (
            place(cell),
            *(_of_tail(cell, name, level) for name, _ in _TAILS for level in _LEVELS),
            NONE if cell.preemptions is None else f"{cell.preemptions:g}",
        )
        for cell in cells
    ]
    table = without_empty(tuple(columns), rows)
    return replace(table, numeric=table.numeric - {0})


def _of_tail(cell: Cell, name: str, level: str) -> str:
    value = (cell.tail.get(name) or {}).get(level)
    return NONE if value is None else number(value, name)


def without_empty(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """The table without columns that are empty in every row; columns of figures are numeric."""
    shown = [place for place in range(len(columns)) if any(row[place] != NONE for row in rows)]
    cut = tuple(tuple(row[place] for place in shown) for row in rows)
    numeric = frozenset(place for place in range(len(shown)) if all(_is_figure(row[place]) for row in cut))
    return Table(tuple(columns[place] for place in shown), cut, numeric)


def _serving_columns() -> list[Column]:
    def of(name: str) -> Callable[[Cell], str]:
        return lambda cell: figure(cell.figure(name), name)

    return [
        ("setting", lambda cell: cell.setting or NONE),
        ("streams", lambda cell: _count(cell.concurrency)),
        ("depth", lambda cell: NONE if cell.depth is None else tokens(cell.depth)),
        *((LABELS[name], of(name)) for name in _SERVING),
        ("accepted by position", _accepted),
        ("tokens a step", lambda cell: NONE if not _drafted(cell) else f"{cell.tokens_per_step:.2f}"),
        ("from cache", lambda cell: share(cell.cache_hit_share)),
        ("KV pool used", lambda cell: share(cell.kv_use)),
        ("VRAM used", _vram),
        ("needles", lambda cell: NONE if cell.needle is None else f"{cell.needle[0]} of {cell.needle[1]}"),
        ("trials", lambda cell: _count(cell.trials)),
        ("valid", _valid),
    ]


def _swap_columns() -> list[Column]:
    def of(name: str) -> Callable[[Cell], str]:
        return lambda cell: figure(cell.figure(name), name)

    phases: list[Column] = [(name.removesuffix("_s"), of(name)) for name in PHASES]
    first: Column = (LABELS["first_token_s"], of("first_token_s"))
    freed: Column = ("freed asleep", _freed)
    return [("swap", lambda cell: cell.setting), first, *phases, freed, ("trials", lambda cell: _count(cell.trials))]


def _freed(cell: Cell) -> str:
    value = cell.figure("freed_bytes")
    return NONE if value is None else format_bytes(round(value.value))


def _vram(cell: Cell) -> str:
    """Each GPU's, since the fullest one is the limit."""
    return " + ".join(map(format_bytes, cell.vram)) or NONE


def _accepted(cell: Cell) -> str:
    """The first positions, and how many there are where the rest is left out."""
    if not cell.acceptance:
        return NONE
    shown = positions(cell.acceptance)
    rest = f", of {len(cell.acceptance)}" if len(shown) < len(cell.acceptance) else ""
    return " ".join(f"{rate * 100:.0f}" for rate in shown) + f" %{rest}"


def _drafted(cell: Cell) -> bool:
    """Without drafts a step is a token, which needs no column."""
    return cell.tokens_per_step is not None and cell.mean_length is not None


def _valid(cell: Cell) -> str:
    if not cell.valid:
        return "NO"
    return "flagged" if cell.flags else "yes"


def _count(found: int | None) -> str:
    return NONE if found is None else str(found)


def _is_figure(text: str) -> bool:
    return text == NONE or text[:1].isdigit()
