"""How the client's figures stand to the engine's own: what a reader trusts the rest by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gearshift.report.blocks import Block, Table, Text
from gearshift.report.documents import Experiment, Json, Value
from gearshift.report.words import NONE, figure, place

_COLUMNS = ("cell", "TTFT", "the engine's", "difference", "TPOT", "the engine's", "ratio")
_ABOUT = (
    "Means over the same requests, by the client and by the engine itself (llama-server's timings, vLLM's histograms). "
    "A client cannot have the first token before its server; what it has later is the way and any queue before the "
    "engine's clock."
)


def agreement(experiments: Sequence[Experiment]) -> Iterator[Block]:
    """The cells where an engine says something of its own; nothing where none does."""
    alone = len(experiments) == 1
    rows = tuple(
        row
        for experiment in experiments
        for row in _rows(experiment, "" if alone else f"{experiment.kind} of {experiment.label}, ")
    )
    if rows:
        yield Text(_ABOUT)
        yield Table(_COLUMNS, rows, frozenset(range(1, len(_COLUMNS))))


def _rows(experiment: Experiment, prefix: str) -> Iterator[tuple[str, ...]]:
    for cell in experiment.cells:
        view = cell.engine
        if view.get("ttft_later_s") is None and view.get("tpot_ratio") is None:
            continue
        yield (prefix + place(cell), *(_time(view, name) for name in ("client_ttft_s", "ttft_s")), _later(view),
               *(_time(view, name) for name in ("client_tpot_s", "tpot_s")), _ratio(view))  # fmt: skip


def _time(view: Json, name: str) -> str:
    value = view.get(name)
    return NONE if value is None else figure(Value(value), name)


def _later(view: Json) -> str:
    later_s = view.get("ttft_later_s")
    return NONE if later_s is None else f"{later_s * 1000:+.3g} ms"


def _ratio(view: Json) -> str:
    ratio = view.get("tpot_ratio")
    return NONE if ratio is None else f"{ratio:.4f}"
