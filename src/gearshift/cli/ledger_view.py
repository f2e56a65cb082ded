"""What `ledger` prints for a person: each start in a line, the last one with its memory and its failure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from gearshift.advice.ledger import ReadStart
from gearshift.cli.output import table
from gearshift.domain.errors import Failure
from gearshift.domain.startup import DeviceBuffer, StartFigures
from gearshift.domain.units import format_bytes, format_duration

_HOST = "host memory"
_EACH = "Meta()"  # llama.cpp's tensor split: what each of its cards holds, not their sum
_NO_DEVICE = "some device"  # the log says what was taken and not where, as of an image projector
FIGURES = {  # the document's keys in words
    "version": "version",
    "weights_bytes": "weights",
    "kv_pool_bytes": "size of the cache",
    "kv_tokens": "tokens of the cache",
    "concurrency": "concurrency",
    "block_size": "block size",
    "state_bytes": "recurrent state",
    "compute_bytes": "compute",
    "graph_bytes": "graphs",
    "engine_init_s": "engine init",
    "start_s": "time until ready",
    "layers_offloaded": "layers on GPUs",
    "speculation": "number of drafted tokens",
}
_KINDS = ("weights", "kv", "state", "compute", "graph", "output")


def render(starts: Sequence[ReadStart]) -> str:
    """Earlier starts in a line each, then the last one in full."""
    if not starts:
        return "no start in it"
    *earlier, last = starts
    several = len({start.log for start in starts}) > 1
    lines = [_headline(start, named=several) for start in earlier]
    return "\n".join([*lines, *([""] if lines else []), _headline(last, named=several), *_details(last)])


def _headline(read: ReadStart, *, named: bool) -> str:
    figures = read.start.report.figures
    engine = "unknown engine" if read.start.engine == "command" else read.start.engine
    version = f" {figures.version}" if figures.version else ""
    log = f"{read.log}: " if named else ""
    return f"{log}{engine}{version}: {_outcome(read)}{_pool(figures)}"


def _outcome(read: ReadStart) -> str:
    report, took = read.start.report, read.start.start_s
    if report.ready:
        after = f" after {format_duration(took)}" if took is not None else ""
        return click.style("ready", fg="green") + after + (", then failed" if report.failure else "")
    return click.style("failed", fg="red") if report.failure else f"the log ends while {report.stage}"


def _pool(figures: StartFigures) -> str:
    if figures.kv_tokens is None:
        return ""
    runs = f", {figures.concurrency:.2f}x" if figures.concurrency is not None else ""
    return f", cache of {figures.kv_tokens:,} tokens{runs}"


def _details(read: ReadStart) -> Iterator[str]:
    report = read.start.report
    if report.failure:
        yield from _failure(report.failure)
    if report.figures.buffers:
        yield ""
        yield _memory(report.figures.buffers)
    yield from _others(read)
    yield from (f"  note: {notice}" for notice in report.notices)


def _failure(failure: Failure) -> Iterator[str]:
    yield f"  cause: {failure.cause}"
    if failure.line:
        yield f"  log:   {failure.line}"
    if failure.fix:
        yield f"  fix:   {failure.fix}"


def _memory(buffers: Sequence[DeviceBuffer]) -> str:
    """A row for each device or rank and a column for each kind; target and draft contexts added up."""
    kinds = sorted({buffer.kind for buffer in buffers}, key=_KINDS.index)
    places = sorted({(buffer.device, buffer.host) for buffer in buffers}, key=lambda place: (place[1], place[0]))
    rows = []
    for place in places:
        held = [buffer for buffer in buffers if (buffer.device, buffer.host) == place]
        sums = [sum(buffer.bytes for buffer in held if buffer.kind == kind) for kind in kinds]
        cells = [format_bytes(size) if size else "-" for size in sums]
        name = f"each card, {_EACH}" if place[0] == _EACH else place[0] or _NO_DEVICE
        rows.append([name, *cells, format_bytes(sum(sums)), _HOST if place[1] else ""])
    return table(["", *kinds, "all", ""], rows)


def _others(read: ReadStart) -> Iterator[str]:
    figures = read.start.report.figures
    said = {
        "block size": _tokens(figures.block_size),
        "context": _tokens(figures.context),
        "engine init": None if figures.engine_init_s is None else format_duration(figures.engine_init_s),
        "layers on GPUs": None if figures.layers_offloaded is None else "{} of {}".format(*figures.layers_offloaded),
        "speculation": _speculation(figures),
    }
    known = [f"{name}: {value}" for name, value in said.items() if value]
    if known:
        yield ""
        yield ", ".join(known)
    if figures.pool_suggestions:
        share, card = figures.pool_suggestions
        yield f"to pin the pool: kv_bytes: {share} fills the share that was asked for, {card} the whole card"
    if read.missing:
        yield f"not in this log: {', '.join(FIGURES[name] for name in read.missing)}"
    if read.start.engine == "llama.cpp" and read.ok and not figures.buffers:
        yield "llama-server prints its buffers with -lv 4"


def _tokens(count: int | None) -> str | None:
    return None if count is None else f"{count:,} tokens"


def _speculation(figures: StartFigures) -> str | None:
    if figures.speculation_method is None:
        return None
    tokens = "" if figures.speculation_tokens is None else f" of {figures.speculation_tokens}"
    return f"{figures.speculation_method}{tokens}"
