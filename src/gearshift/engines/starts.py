"""A log file as the starts in it: which engine wrote it, where each start begins, and how long it took."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from gearshift.domain.startup import LogFold, StartReport
from gearshift.domain.variant import EngineKind
from gearshift.engines.launch import log_fold
from gearshift.engines.lines import clean, without_colours, wrapper_clock

_VLLM = re.compile(
    r"\((?:APIServer|EngineCore\w*|(?:Vllm)?Worker[\w -]*) pid=\d+\)|vllm[./ :]|api_server\.py: error"
    r"|(?:DEBUG|INFO|WARNING|ERROR) \d\d-\d\d \d\d:\d\d:\d\d \[[\w.]+:\d+\]"
    r"|validation errors? for \w+Config\b|error: unrecognized arguments: "  # excerpts have no more
    r"|^(?:Model loading took|Available KV cache memory: |(?:[GCX]PU) KV cache size: )"
)
_LLAMACPP = re.compile(
    r"\b(?:llama_\w+|load_tensors|sched_reserve|ggml_\w+|common_\w+|srv +\w+|gguf_init_\w+): ?|llama-server"
)
_ONCE = {  # lines a start prints once: the second of a kind belongs to another start
    "vllm": re.compile(
        r"(?:█|\]) +(version) \d|(non-default args):|(Initializing a V\d)|(Starting vLLM)|(KV cache size): "
    ),
    "llama.cpp": re.compile(
        r"(llama_server: initializing \.\.\.)|print_info: (build )\d+|(build_info:)|(loading model ')"
    ),
}
_BEGINS = {  # after a failure they are another start's, whatever the failed one had printed
    "vllm": re.compile(r"(?:█|\]) +version \d|non-default args:"),
    "llama.cpp": re.compile(r"llama_server: initializing \.\.\.|print_info: build \d+|build_info:|loading model '"),
}
_ENDED = re.compile(r"exiting due to|error: invalid argument|error while handling argument")  # llama-server gave up
_POOL = re.compile(
    r"Available KV cache memory|Initial free memory|set \([\d.]+/"
)  # once a rank, before the tokens line
_TOKENS = "KV cache size"
_REPLICA = re.compile(r"\((?:EngineCore|Worker)\w*?_DP(\d+)")  # each of vLLM's data-parallel engines prints them
_SOURCE = re.compile(r"\[(\d+)\] ")  # a router's child
_ELAPSED = re.compile(r"(?:\[\d+\] )?(\d+)\.(\d\d)\.(\d{3})\.(\d{3}) [DIWE] ")
_VLLM_CLOCK = re.compile(r"(?:INFO|WARNING|ERROR) (\d\d-\d\d) (\d\d:\d\d:\d\d) \[")
_SERVES = re.compile(r"\| task |Engine \d+: Avg")  # ready for how long, such a line does not say
_LEAP_YEAR = "2024"  # vLLM's clock names no year; any leap year can hold its dates


@dataclass(frozen=True, slots=True)
class LoggedStart:
    """One start as its log tells it. ``start_s`` is the time from the first stamped line to ready; None = unknown."""

    engine: EngineKind
    report: StartReport
    start_s: float | None
    lines: tuple[str, ...] = field(default=(), repr=False, compare=False)  # those that are this start's


def engine_of(lines: Iterable[str]) -> EngineKind:
    """Which engine wrote a log, by the first line that only one of them writes; ``command`` when none does."""
    return _engine_of(map(clean, lines))


def read_starts(lines: Iterable[str], engine: EngineKind | None = None) -> tuple[LoggedStart, ...]:
    """Every start in a log in the order in which they began; empty for an empty log.

    Of a router only its children are starts: its own lines load no model.
    """
    numbered = enumerate(lines)
    kept = [_Line(at, line, clean(line)) for at, line in numbered if line.strip() and not line.startswith("# ")]
    kind = engine or _engine_of(line.text for line in kept)
    streams = _streams(kept)
    own = [part for stream in streams.values() for part in _split(kind, stream)]
    starts = [_read(kind, part) for part in sorted(own, key=lambda part: part[0].at)]
    return tuple(starts if len(streams) <= 1 else [start for start in starts if _tells_anything(start)] or starts[-1:])


def clock(line: str) -> float | None:
    """An engine's own time stamp in seconds, comparable within one log only; None where the line has none."""
    if match := _ELAPSED.match(line):  # llama.cpp: minutes.seconds.milliseconds.microseconds since its begin
        minutes, seconds, milliseconds, microseconds = (int(part) for part in match.groups())
        return minutes * 60 + seconds + milliseconds / 1e3 + microseconds / 1e6
    match = _VLLM_CLOCK.search(line)
    return _seconds(f"{_LEAP_YEAR}-{match[1]}", match[2]) if match else None


@dataclass(frozen=True, slots=True)
class _Line:
    """A line as it stands in the log, and as the engine wrote it; ``at`` counts the log's lines."""

    at: int
    raw: str
    text: str

    def stamp(self, *, wrapped: bool) -> float | None:
        """Seconds by the wrapper's clock, or by the engine's own; the two do not compare."""
        if not wrapped:
            return clock(self.text)
        found = wrapper_clock(without_colours(self.raw))
        return _seconds(*found) if found else None


def _engine_of(texts: Iterable[str]) -> EngineKind:
    for text in texts:
        if _VLLM.search(text):
            return "vllm"
        if _LLAMACPP.search(text) or text.startswith(("error: invalid argument", "error while handling argument")):
            return "llama.cpp"
    return "command"


def _seconds(date: str, time: str) -> float | None:
    try:
        return datetime.fromisoformat(f"{date}T{time}").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _tells_anything(start: LoggedStart) -> bool:
    report = start.report
    return report.ready or report.failure is not None or bool(report.figures.buffers)


def _streams(lines: list[_Line]) -> dict[str, list[_Line]]:
    """The log's lines by who printed them: a router's children, and what has no such prefix."""
    streams: dict[str, list[_Line]] = {}
    for line in lines:
        match = _SOURCE.match(line.text)
        streams.setdefault(match[1] if match else "", []).append(line)
    return streams


def _split(kind: EngineKind, lines: list[_Line]) -> Iterator[list[_Line]]:
    once = _ONCE.get(kind)
    seen: set[str] = set()
    part: list[_Line] = []
    for line in lines:
        match = once.search(line.text) if once else None
        replica = _replica(line.text)
        mark = match[match.lastindex or 0] + replica if match else None
        again = mark in seen or (_TOKENS + replica in seen and _POOL.search(line.text))
        if part and (again or _begins_anew(kind, line, part)):
            yield part
            part, seen = [], set()
        if mark:
            seen.add(mark)
        part.append(line)
    if part:
        yield part


def _replica(text: str) -> str:
    match = _REPLICA.match(text)
    return match[1] if match else ""


def _begins_anew(kind: EngineKind, line: _Line, before: list[_Line]) -> bool:
    """Whether a start's first words follow a start that failed, of which an excerpt may have kept only the end."""
    begins = _BEGINS.get(kind)
    if begins is None or not begins.search(line.text):
        return False
    if kind == "llama.cpp":
        return any(_ENDED.search(earlier.text) for earlier in before)
    return _folded(kind, before).report.failure is not None


def _folded(kind: EngineKind, lines: Iterable[_Line]) -> LogFold:
    state: LogFold = log_fold(kind)
    for line in lines:
        state = state.feed(line.raw)
    return state


def _read(kind: EngineKind, lines: list[_Line]) -> LoggedStart:
    state: LogFold = log_fold(kind)
    wrapped = _wrapped(lines)
    first: float | None = None
    last: float | None = None
    start_s: float | None = None
    for line in lines:
        was_ready, state = state.report.ready, state.feed(line.raw)
        last = stamp if (stamp := line.stamp(wrapped=wrapped)) is not None else last
        first = last if first is None else first
        if state.report.ready and not was_ready and first is not None and last is not None:
            timed = last >= first and not _SERVES.search(line.text)  # lines out of order time nothing
            start_s = last - first if timed else None
    return LoggedStart(kind, state.report, start_s, tuple(line.raw for line in lines))


def _wrapped(lines: Iterable[_Line]) -> bool:
    """Whether the first line that has a time has it from a wrapper."""
    for line in lines:
        if line.stamp(wrapped=True) is not None:
            return True
        if line.stamp(wrapped=False) is not None:
            return False
    return False
