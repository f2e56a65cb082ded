"""Which figures a start-up log lacks that a complete log of the same engine and set-up would have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

from gearshift.domain.startup import StartFigures, StartReport
from gearshift.domain.variant import EngineKind
from gearshift.engines.starts import LoggedStart

_SIGNS = {  # trait to what only such a log says
    "cpu": re.compile(
        r"\bCPU KV cache size|for KV cache on node \d|device_config=cpu|CPU_ATTN|OMP thread(s)? bind|init_cpu_threads"
    ),
    "eager": re.compile(r"enforce_eager['\"]?[=:] ?True"),
    "pinned": re.compile(r"as specified by kv_cache_memory_bytes|'kv_cache_memory_bytes': \d|startup.plan"),
    "hybrid": re.compile(
        r"Setting attention block size|Padding mamba page|Mamba cache mode is set|llama_memory_recurrent:"
    ),
}
_OF_VLLM = ("version", "kv_pool_bytes", "kv_tokens", "concurrency", "engine_init_s", "start_s")
_OF_LLAMACPP = ("version", "weights_bytes", "kv_pool_bytes", "kv_tokens", "compute_bytes", "start_s")


@dataclass(frozen=True, slots=True)
class LogTraits:
    """What kind of start the lines speak of, so that nothing is missed that such a log never has."""

    cpu: bool = False  # vLLM's CPU build: no weights line, no graphs, no activation
    eager: bool = False  # no graphs are captured
    pinned: bool = False  # a pinned pool skips the profile's ledger line
    hybrid: bool = False  # recurrent layers: vLLM sets a block size, llama.cpp names its state buffers


def traits_of(lines: Iterable[str]) -> LogTraits:
    """The traits of one start's lines."""
    found: set[str] = set()
    for line in lines:
        found |= {name for name, sign in _SIGNS.items() if name not in found and sign.search(line)}
    return LogTraits(**{field.name: field.name in found for field in fields(LogTraits)})


def missing_figures(start: LoggedStart, traits: LogTraits) -> tuple[str, ...]:
    """Names of the figures that are absent, in the order of the document."""
    expected = set(_expected(start.engine, start.report, traits))
    figures = start.report.figures
    known = {field.name for field in fields(StartFigures) if getattr(figures, field.name) is not None}
    known |= {"start_s"} if start.start_s is not None else set()
    known |= {"speculation"} if figures.speculation_tokens is not None else set()
    return tuple(name for name in ORDER if name in expected - known)


ORDER = (
    "version", "weights_bytes", "kv_pool_bytes", "kv_tokens", "concurrency", "block_size", "state_bytes",
    "compute_bytes", "graph_bytes", "engine_init_s", "start_s", "layers_offloaded", "speculation",
)  # fmt: skip


def _expected(engine: EngineKind, report: StartReport, traits: LogTraits) -> Iterator[str]:
    drafts = any(buffer.context == "draft" for buffer in report.figures.buffers)
    if drafts or report.figures.speculation_method is not None:
        yield "speculation"  # how many tokens, where it says that there is speculation
    if engine == "vllm":
        yield from _expected_of_vllm(traits)
    elif engine == "llama.cpp":
        yield from _OF_LLAMACPP
        if traits.hybrid:
            yield "state_bytes"
        if any(not buffer.host for buffer in report.figures.buffers):
            yield "layers_offloaded"  # only builds for a GPU say it


def _expected_of_vllm(traits: LogTraits) -> Iterator[str]:
    yield from _OF_VLLM
    if traits.hybrid:
        yield "block_size"
    if traits.cpu:
        return
    yield "weights_bytes"
    if not traits.pinned:
        yield "compute_bytes"
    if not traits.eager:
        yield "graph_bytes"
