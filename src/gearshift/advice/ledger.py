"""`ledger`: what engines' start-up logs say, as one document whichever engine wrote them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from gearshift.advice.ledger_lines import log_lines
from gearshift.advice.ledger_missing import missing_figures, traits_of
from gearshift.domain.startup import DeviceBuffer, StartFigures, StartReport
from gearshift.engines.starts import LoggedStart, read_starts

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ReadStart:
    """One start of one log. ``log`` names the file; ``missing`` the figures that a complete log would have."""

    log: str
    start: LoggedStart
    missing: tuple[str, ...]

    @property
    def ok(self) -> bool | None:
        """True when it became ready, False when it failed before that, None when the log just ends."""
        report = self.start.report
        if report.ready:
            return True
        return None if report.failure is None else False


def read_log(name: str, lines: Sequence[str]) -> tuple[ReadStart, ...]:
    """Every start in a log, in file order; a failure's line is the log's own."""
    read = tuple(log_lines(lines))
    texts = [line.text for line in read]
    verbatim = {line.text: line.verbatim for line in read if line.text != line.verbatim}
    return tuple(
        ReadStart(name, _quoted(start, verbatim), missing_figures(start, traits_of(start.lines)))
        for start in read_starts(texts)
    )


def _quoted(start: LoggedStart, verbatim: Mapping[str, str]) -> LoggedStart:
    failure = start.report.failure
    if failure is None or failure.line is None or failure.line not in verbatim:
        return start
    quoted = replace(failure, line=verbatim[failure.line])
    return replace(start, report=replace(start.report, failure=quoted))


def ledger_document(starts: Sequence[ReadStart]) -> Json:
    """The last start's figures, and those of every start under ``starts``. Without any start all figures are null."""
    last = _figures(starts[-1]) if starts else _nothing()
    return last | {"starts": [{"log": read.log} | _figures(read) for read in starts]}


def devices_of(buffers: Iterable[DeviceBuffer]) -> list[Json]:
    """Buffers by device, in the log's order; the same device's host and own memory never share an entry."""
    found: dict[tuple[str, bool], list[DeviceBuffer]] = {}
    for buffer in buffers:
        found.setdefault((buffer.device, buffer.host), []).append(buffer)
    return [
        {
            "device": device or None,
            "host": host,
            "bytes": sum(buffer.bytes for buffer in held),
            "buffers": [{"kind": buffer.kind, "context": buffer.context, "bytes": buffer.bytes} for buffer in held],
        }
        for (device, host), held in found.items()
    ]


def _figures(read: ReadStart) -> Json:
    report = read.start.report
    figures, failure = report.figures, report.failure
    return {
        "engine": None if read.start.engine == "command" else read.start.engine,
        "version": figures.version,
        "ok": read.ok,
        "weights_bytes": figures.weights_bytes,
        "kv_pool_bytes": figures.kv_pool_bytes,
        "kv_pool_suggested_bytes": None if figures.pool_suggestions is None else list(figures.pool_suggestions),
        "kv_tokens": figures.kv_tokens,
        "concurrency": figures.concurrency,
        "block_size": figures.block_size,
        "state_bytes": figures.state_bytes,
        "compute_bytes": figures.compute_bytes,
        "graph_bytes": figures.graph_bytes,
        "engine_init_s": figures.engine_init_s,
        "start_s": read.start.start_s,
        "layers_offloaded": None if figures.layers_offloaded is None else list(figures.layers_offloaded),
        "speculation": _speculation(figures),
        "devices": devices_of(figures.buffers),
        "missing": list(read.missing),
        "notices": list(report.notices),
        "failure": None if failure is None else asdict(failure),
    }


def _speculation(figures: StartFigures) -> Mapping[str, Any] | None:
    if figures.speculation_method is None:
        return None
    return {"method": figures.speculation_method, "tokens": figures.speculation_tokens}


def _nothing() -> Json:
    """The document of no start at all."""
    return _figures(ReadStart("", LoggedStart("command", StartReport(), None), ()))
