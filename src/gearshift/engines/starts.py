"""A log file as the starts in it: which engine wrote it, where each start begins, and how long it took."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from gearshift.domain.startup import LogFold, StartReport
from gearshift.domain.variant import EngineKind
from gearshift.engines.launch import log_fold

_VLLM = re.compile(
    r"\((?:APIServer|EngineCore\w*|(?:Vllm)?Worker[\w-]*) pid=\d+\)|vllm[./ :]|api_server\.py: error"
    r"|validation errors? for \w+Config\b|error: unrecognized arguments: "  # excerpts have no more
)
_LLAMACPP = re.compile(
    r"\b(?:llama_\w+|load_tensors|sched_reserve|ggml_\w+|common_\w+|srv +\w+|gguf_init_\w+): ?|llama-server"
)
_ONCE = {  # lines a start prints once: the second of a kind belongs to another start
    "vllm": re.compile(r"█ +(version) \S|(non-default args):|(Initializing a V\d)|(Starting vLLM)|(KV cache size): "),
    "llama.cpp": re.compile(
        r"(llama_server: initializing \.\.\.)|print_info: (build )\d+|(build_info:)|(loading model ')"
    ),
}
_POOL = re.compile(
    r"Available KV cache memory|Initial free memory|set \([\d.]+/"
)  # once a rank, before the tokens line
_TOKENS = "KV cache size"
_SOURCE = re.compile(r"(?:data: )?\[(\d+)\] ")  # a router's child
_ELAPSED = re.compile(r"(?:data: )?(?:\[\d+\] )?(\d+)\.(\d\d)\.(\d{3})\.(\d{3}) [DIWE] ")
_WALL = re.compile(r"(?:data: )?(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)")
_VLLM_CLOCK = re.compile(r"(?:INFO|WARNING|ERROR) (\d\d-\d\d) (\d\d:\d\d:\d\d) \[")
_LEAP_YEAR = "2024"  # vLLM's clock names no year; any leap year can hold its dates


@dataclass(frozen=True, slots=True)
class Start:
    """One start as its log tells it. ``start_s`` is the time from the first stamped line to ready; None = unknown."""

    engine: EngineKind
    report: StartReport
    start_s: float | None


def engine_of(lines: Iterable[str]) -> EngineKind:
    """Which engine wrote a log, by the first line that only one of them writes; ``command`` when none does."""
    for line in lines:
        if _VLLM.search(line):
            return "vllm"
        if _LLAMACPP.search(line) or line.startswith(("error: invalid argument", "error while handling argument")):
            return "llama.cpp"
    return "command"


def read_starts(lines: Iterable[str], engine: EngineKind | None = None) -> tuple[Start, ...]:
    """Every start in a log in file order, a router's children one after the other; empty for an empty log."""
    kept = [line for line in lines if line.strip() and not line.startswith("# ")]
    kind = engine or engine_of(kept)
    return tuple(_read(kind, part) for stream in _streams(kept) for part in _split(kind, stream))


def clock(line: str) -> float | None:
    """A line's time stamp in seconds, comparable within one log only; None where it has none."""
    if match := _ELAPSED.match(line):  # llama.cpp: minutes.seconds.milliseconds.microseconds since its begin
        minutes, seconds, milliseconds, microseconds = (int(part) for part in match.groups())
        return minutes * 60 + seconds + milliseconds / 1e3 + microseconds / 1e6
    if match := _VLLM_CLOCK.search(line):
        return _seconds(f"{_LEAP_YEAR}-{match[1]}", match[2])
    return _seconds(match[1], match[2]) if (match := _WALL.match(line)) else None


def _seconds(date: str, time: str) -> float | None:
    try:
        return datetime.fromisoformat(f"{date}T{time}").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _streams(lines: list[str]) -> Iterator[list[str]]:
    streams: dict[str, list[str]] = {}
    for line in lines:
        match = _SOURCE.match(line)
        streams.setdefault(match[1] if match else "", []).append(line)
    yield from streams.values()


def _split(kind: EngineKind, lines: list[str]) -> Iterator[list[str]]:
    once = _ONCE.get(kind)
    seen: set[str] = set()
    part: list[str] = []
    for line in lines:
        match = once.search(line) if once else None
        mark = match[match.lastindex or 0] if match else None
        if mark in seen or (_TOKENS in seen and _POOL.search(line)):
            yield part
            part, seen = [], set()
        if mark:
            seen.add(mark)
        part.append(line)
    if part:
        yield part


def _read(kind: EngineKind, lines: list[str]) -> Start:
    state: LogFold = log_fold(kind)
    first = next((stamp for line in lines if (stamp := clock(line)) is not None), None)
    last, start_s = first, None
    for line in lines:
        was_ready, state = state.report.ready, state.feed(line)
        last = stamp if (stamp := clock(line)) is not None else last
        if state.report.ready and not was_ready and first is not None and last is not None:
            start_s = last - first if last >= first else None  # lines out of order time nothing
    return Start(kind, state.report, start_s)
