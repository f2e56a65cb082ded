"""The fold over llama-server's log: stages, buffers, root cause."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gearshift.domain.startup import BufferKind, StartFigures, StartReport
from gearshift.domain.units import MIB
from gearshift.engines.buffers import Buffers
from gearshift.engines.causes import explain
from gearshift.engines.lines import NUMBER, clean
from gearshift.engines.llamacpp_build import build_number

_PREFIX = re.compile(r"(?:\[(\d+)\] )?(?:\d+\.\d\d\.\d{3}\.\d{3} ([DIWE]) )?")
_SIZE = re.compile(rf"\s*(\S+)\s+(model|output|KV|RS|compute) buffer size =\s*({NUMBER}) MiB")
_OFFLOADED = re.compile(r"offloaded (\d{1,6})/(\d{1,6}) layers to GPU")
_CACHE = re.compile(
    rf"\s*size =\s*(?P<mib>{NUMBER}) MiB \(\s*(?P<cells>\d{{1,12}}) cells(?:,.*?\d/(?P<streams>\d{{1,6}}) seqs)?"
)
_CONTEXT = re.compile(r"n_ctx\s*= (\d{1,12})")
_SPEC = re.compile(r"adding speculative implementation '([\w-]+)'")
_SPEC_MAX = re.compile(r"n_max=(\d{1,6})")
_PROJECTOR = re.compile(rf"model size:\s*({NUMBER}) MiB")
_SEVERE = re.compile(r"CUDA error|GGML_ASSERT|cudaMalloc failed|failed to allocate|terminate called|Segmentation fault")
_BARE_ERROR = re.compile(r"error: |error while handling argument |terminate called|GGML_ASSERT|.*: GGML_ASSERT")
_UNLEVELLED = re.compile(  # failure lines of builds that print no level letter
    r"cudaMalloc failed|failed to allocate|failed to initialize the context|error loading model|failed to load model"
    r"|exiting due to|invalid magic|failed to open|couldn't bind|doesn't contain MTP layers"
)
_NOT_THE_CAUSE = ("common_fit_params", "llama_params_fit", "common_params_fit_impl", "llama_params_fit_impl")
_RECOVERED = "retrying without pipeline parallelism"
_NOTICES = (
    "exceeds the training context",
    "it will be disabled",
    "backend sampling not supported",
    "using CPU sampler",
    "failed to initialize speculative decoding",
    "vocabs are not compatible",
    "tokens must match target model",
    "does not match the encoder input",
    _RECOVERED,
    "will be overwritten by command line",
    "is not recommended",
)
_KINDS: Mapping[str, BufferKind] = {"output": "output", "KV": "kv", "RS": "state", "compute": "compute"}


@dataclass(frozen=True, slots=True)
class Load:
    """What one load has printed so far."""

    report: StartReport = field(default_factory=StartReport)
    buffers: Buffers = field(default_factory=Buffers)
    caches: int = 0  # KV buffers since the last line that sums them up
    summed: bool = False  # a cache's cells were told, so that the context's length does not stand in for them
    untold: int = 0  # bytes of caches that only such a line tells of

    def at(self, stage: str) -> Load:
        """The next stage; a later line of an earlier stage, such as the draft's context, still names what goes on."""
        if self.report.ready or self.report.stage == stage:
            return self
        return replace(self, report=replace(self.report, stage=stage))

    def known(self, **figures: Any) -> Load:
        """Figures read from a line, by their names in StartFigures."""
        merged = replace(self.report.figures, **figures)
        return replace(self, report=replace(self.report, figures=merged))

    def held(self, buffers: Buffers) -> Load:
        """Buffers read from a line, with the sums that follow from them."""
        return replace(self, buffers=buffers).known(
            buffers=buffers.entries,
            weights_bytes=buffers.total("weights"),
            kv_pool_bytes=self._pool(buffers),
            state_bytes=buffers.total("state"),
            compute_bytes=buffers.total("compute"),
        )

    def _pool(self, buffers: Buffers) -> int | None:
        """All caches; unknown where one is summed over cards and the others are one card's share of each."""
        told = buffers.total("kv")
        if not self.untold:
            return told
        return None if buffers.shared_out else self.untold + (told or 0)

    def failed(self, text: str, line: str) -> Load:
        """The first failure stands: what follows is its consequence."""
        if self.report.failure is not None:
            return self
        return replace(self, report=replace(self.report, failure=explain(text, line)))

    def noticed(self, text: str) -> Load:
        """A warning that changes what the start means."""
        if text in self.report.notices:
            return self
        return replace(self, report=replace(self.report, notices=(*self.report.notices, text)))


@dataclass(frozen=True, slots=True)
class LlamaCppLog:
    """The fold. A router's children print into one stream, told apart by a prefix: the report is the latest one's."""

    loads: Mapping[str, Load] = field(default_factory=dict)
    current: str = ""

    @property
    def report(self) -> StartReport:
        return self.loads[self.current].report if self.current in self.loads else StartReport()

    def feed(self, line: str) -> LlamaCppLog:
        match = _PREFIX.match(text := clean(line))
        source, level, text = (match[1] or "", match[2], text[match.end() :]) if match else ("", None, text)
        load = self.loads.get(source, Load())
        after = _step(load, level, text, line)
        if after is load:
            return self
        return LlamaCppLog({**self.loads, source: after}, source)


def _step(load: Load, level: str | None, text: str, line: str) -> Load:
    head, colon, rest = text.partition(":")
    words = head.split()
    component = words[-1] if colon and words else ""
    handler = _HANDLERS.get(component)
    if handler is not None and level != "D":
        load = handler(load, rest)
    return _trouble(load, level, component, text, line)


def _trouble(load: Load, level: str | None, component: str, text: str, line: str) -> Load:
    if level in {"I", "D"}:
        return load
    if any(notice in text for notice in _NOTICES):
        return load.noticed(text)
    if component in _NOT_THE_CAUSE or load.report.failure is not None or not _fatal(load, level, text):
        return load
    return load.failed(text.strip(), line)


def _fatal(load: Load, level: str | None, text: str) -> bool:
    """After the load only what kills the process counts: a refused request is an error of level E as well."""
    if load.report.ready:
        return _SEVERE.search(text) is not None
    if level == "W":
        return "doesn't contain MTP layers" in text  # the cause of the E line after it
    return level == "E" or _BARE_ERROR.match(text) is not None or _UNLEVELLED.search(text) is not None


def _tensors(load: Load, rest: str) -> Load:
    if match := _SIZE.match(rest):
        if load.buffers.last >= 0:  # another pass: what came before was a probe
            load = replace(load, caches=0, summed=False, untold=0)
        return load.held(load.buffers.weights(match[1], _mib(match[3])))
    if match := _OFFLOADED.search(rest):
        return _restart(load).known(layers_offloaded=(int(match[1]), int(match[2])))
    return load.at("loading weights") if "loading model tensors" in rest else load


def _restart(load: Load) -> Load:
    """``using device`` or ``offloaded`` after buffers: the server was started again into the same file."""
    if not load.buffers.entries:
        return load
    figures = StartFigures(version=load.report.figures.version)
    return Load(StartReport(stage="loading weights", figures=figures))


def _devices(load: Load, rest: str) -> Load:
    return _restart(load) if "using device" in rest else load


def _buffer(load: Load, rest: str) -> Load:
    match = _SIZE.match(rest)
    return load.held(load.buffers.add(_KINDS[match[2]], match[1], _mib(match[3]))) if match else load


def _context(load: Load, rest: str) -> Load:
    if "constructing llama_context" in rest:
        return replace(load, buffers=load.buffers.announce()).at("allocating the cache")
    if load.report.figures.context is None and (match := _CONTEXT.search(rest)):
        return load.known(context=int(match[1]))
    return _buffer(load, rest)


def _cache(load: Load, rest: str) -> Load:
    if match := _CACHE.match(rest):
        return _summed(load, match)
    after = _buffer(load, rest)
    if after is load:
        return load
    length = after.report.figures.context
    if after.report.figures.kv_tokens is None and length is not None:
        after = after.known(kv_tokens=length)
    return replace(after, caches=after.caches + 1)


def _summed(load: Load, match: re.Match[str]) -> Load:
    """The line that sums a cache up says how many tokens it holds, and its bytes where the buffers' lines are lost."""
    lost = 0 if load.caches else _mib(match["mib"])
    tokens = int(match["cells"]) * int(match["streams"] or 1)
    after = load if load.summed else load.known(kv_tokens=tokens)
    after = replace(after, caches=0, summed=True, untold=after.untold + lost)
    return after.held(after.buffers) if lost else after


def _draft(load: Load, rest: str) -> Load:
    if "creating MTP draft context" not in rest:
        return load
    begun = replace(load, buffers=load.buffers.announce()).at("creating the draft context")
    return begun if begun.report.figures.speculation_method else begun.known(speculation_method="mtp")


def _vision(load: Load, rest: str) -> Load:
    match = _SIZE.match(rest)
    return load.held(load.buffers.vision("compute", match[1], _mib(match[3]))) if match else load


def _projector(load: Load, rest: str) -> Load:
    match = _PROJECTOR.search(rest)
    return load.held(load.buffers.vision("weights", "", _mib(match[1]))) if match else load


def _ready(load: Load) -> Load:
    if load.report.ready:
        return load
    # what went wrong on the way was overcome
    return replace(load, report=replace(load.report, stage="ready", progress=None, ready=True, failure=None))


def _served(load: Load, rest: str) -> Load:
    """Slots wait or work only once the model is loaded; an excerpt may lack the line that says so."""
    return _ready(load) if "all slots are idle" in rest or "| task " in rest else load


def _server(load: Load, rest: str) -> Load:
    if "model loaded" in rest:
        return _ready(load)
    if "initializing ..." in rest and load.report.ready:
        return Load()
    if "speculative" in rest or "draft context" in rest:
        return _speculation(_draft(load, rest), rest)
    return load


def _speculation(load: Load, rest: str) -> Load:
    if match := _SPEC.search(rest):
        return load.known(speculation_method=match[1].removeprefix("draft-"))
    figures = load.report.figures
    if figures.speculation_method and figures.speculation_tokens is None and (match := _SPEC_MAX.search(rest)):
        return load.known(speculation_tokens=int(match[1]))
    return load


def _build(load: Load, rest: str) -> Load:
    number = build_number(rest)
    return load.known(version=number) if number else load


def _old_build(load: Load, rest: str) -> Load:
    return load.known(version=rest.strip() or None)


def _warmup(load: Load, rest: str) -> Load:
    if "warming up" in rest:
        return load.at("warming up")
    return load.at("fitting to memory") if "fitting params" in rest else load


def _mib(text: str) -> int:
    return round(float(text) * MIB)


_HANDLERS: Mapping[str, Callable[[Load, str], Load]] = {
    "load_tensors": _tensors,
    "llama_prepare_model_devices": _devices,
    "llama_model_load_from_file_impl": _devices,
    "llama_context": _context,
    "llama_kv_cache": _cache,
    "llama_kv_cache_unified": _cache,
    "llama_memory_recurrent": _buffer,
    "sched_reserve": _buffer,
    "alloc_compute_meta": _vision,
    "reserve_compute_meta": _vision,
    "load_hparams": _projector,
    "common_speculative_init_result": _draft,
    "load_model": _server,
    "llama_server": _server,
    "main": _server,
    "update_slots": _served,
    "launch_slot_": _served,
    "print_timing": _served,
    "common_specu": _speculation,
    "common_speculative_init": _speculation,
    "common_param": _build,
    "build_info": _old_build,
    "common_init_": _warmup,
    "common_init_result": _warmup,
    "common_init_from_params": _warmup,
}
