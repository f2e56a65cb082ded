"""The fold over vLLM's log: stages, the memory ledger, root cause."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gearshift.domain.startup import BufferKind, DeviceBuffer, StartReport
from gearshift.domain.units import GIB
from gearshift.engines.causes import explain
from gearshift.engines.lines import COUNT, NUMBER, clean

_PREFIX = re.compile(
    r"(?:\[rank\d+\]: )?"  # what torch puts before a rank's traceback
    r"(?:\((?P<process>[A-Za-z]+)[-_ ]?(?P<rank>\w*?) pid=\d+\) )?"
    r"(?:(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL):? +(?:\d\d-\d\d \d\d:\d\d:\d\d )?(?:\[[\w.]+:\d+\] )?)?"
)
_RANK = re.compile(r"(?<![A-Z])(DP|PP|PCP|TP)(\d+)")  # of a process's name; ranks of experts follow from these
_PERCENT = re.compile(r"(\d{1,3})% ?(?:Completed|\|)")
_FLOAT = re.compile(rf"(-?{NUMBER}) GiB")
_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.)*(?P<name>[A-Z]\w*(?:Error|Exception|Interrupt|Exit))(?:: ?(?P<text>.*)|$)")
_REASON = re.compile(
    r" +(?:Value error, |(?=Input should be|Extra inputs))(.*?)(?: \[type=.*)?$"
)  # below pydantic's head
_ARGPARSE = re.compile(r"(?:[\w.\- ]+: )?error: (.*)")
_VERSION = re.compile(r"(?:^ ?|█ +|API server )version v?(\d+\.\d\S*)$")  # in the banner, or what a cut left of it
_DIED = re.compile(r"Worker proc \S+ died unexpectedly \(exit code: (-?\d+)\)")
_ABORT = re.compile(
    r"double free|free\(\): |malloc\(\): |corrupted |Segmentation fault|terminate called|Fatal Python error|Killed$"
)
_SUGGESTED = re.compile(r"`--kv-cache-memory=(\d{1,15})`.*requested memory, or `--kv-cache-memory=(\d{1,15})`")
_ASKED = re.compile(r"KeyboardInterrupt|RuntimeError: cancelled|asyncio\.exceptions\.CancelledError")  # no failures
_ECHOES = re.compile(  # they point at a failure told before; alone they are all there is, as after a SIGKILL
    r"EngineDeadError|Engine core initialization failed|WorkerProc initialization failed"
)
_ENGINE = frozenset({"EngineCore", "Worker", "VllmWorker"})
_NOTICES = (
    "max_num_scheduled_tokens is set to",
    "padding layers, may waste",
    "won't work with speculative decoding",
    "is not supported with spec-decode",
    "Unknown vLLM environment variable",
    "uncalibrated q_scale",
    "sleep mode is not supported",
    "is currently experimental",
    "which may result in lower acceptance",
    "could be identified as the draft",
)


@dataclass(frozen=True, slots=True)
class VllmLog:
    """The fold. ``pools`` and ``weights`` hold the latest figure of each rank; the pool is the minimum over them."""

    report: StartReport = field(default_factory=StartReport)
    weights: Mapping[str, int] = field(default_factory=dict)
    pools: Mapping[str, int] = field(default_factory=dict)
    graphs: Mapping[str, int] = field(default_factory=dict)
    activations: Mapping[str, int] = field(default_factory=dict)
    asked_pool: int | None = None  # kv_cache_memory_bytes of the command line: exact where the log rounds
    tentative: bool = False  # the failure is of the API server alone: an engine's own would replace it
    stopping: bool = False

    def feed(self, line: str) -> VllmLog:
        text = clean(line)
        match = _PREFIX.match(text)
        if match is None:  # every part is optional
            return self
        message = text[match.end() :]
        return _trouble(_read(self, match, message), match, message, line)

    def at(self, stage: str, progress: float | None = None) -> VllmLog:
        """The next stage, until the server is ready."""
        if self.report.ready or (self.report.stage, self.report.progress) == (stage, progress):
            return self
        return replace(self, report=replace(self.report, stage=stage, progress=progress))

    def known(self, **figures: Any) -> VllmLog:
        """Figures read from a line, by their names in StartFigures."""
        merged = replace(self.report.figures, **figures)
        return replace(self, report=replace(self.report, figures=merged))

    def failed(self, text: str, line: str, *, tentative: bool) -> VllmLog:
        """An engine's first error stands; among the API server's own the last one does."""
        if self.report.failure is not None and not self.tentative:
            return self
        return replace(self, report=replace(self.report, failure=explain(text, line)), tentative=tentative)

    def noticed(self, text: str) -> VllmLog:
        """A warning that changes what the start means."""
        if text in self.report.notices:
            return self
        return replace(self, report=replace(self.report, notices=(*self.report.notices, text)))


def _read(fold: VllmLog, match: re.Match[str], message: str) -> VllmLog:
    word, _, _ = message.partition(" ")
    handlers = _HANDLERS.get(word)
    if handlers is None:
        return _banner(fold, message) if "version" in message else fold
    rank = _rank(match)
    for start, handler in handlers:
        if message.startswith(start):
            return handler(fold, rank, message)
    return fold


def _rank(match: re.Match[str]) -> str:
    """``1`` where only tensors are split; with stages or replicas each is named, ``PP1 TP0``: a card is one of all."""
    found = _RANK.findall(match["rank"] or "")
    if [kind for kind, _ in found] in ([], ["TP"]):
        return found[0][1] if found else "0"
    return " ".join(kind + number for kind, number in found)


def _trouble(fold: VllmLog, match: re.Match[str], message: str, line: str) -> VllmLog:
    level, process = match["level"], match["process"]
    if level in {"WARNING", "INFO"} and any(notice in message for notice in _NOTICES):
        return fold.noticed(message.removeprefix("Warning: "))  # vLLM writes some of its warnings at level INFO
    if level == "WARNING":
        return fold
    if level == "INFO":
        return replace(fold, stopping=True) if "[shutdown] API server: shutdown triggered" in message else fold
    if fold.stopping or (fold.report.failure is not None and not fold.tentative) or _ASKED.search(message):
        return fold
    if _ECHOES.search(message):
        alone = fold.report.failure is None and not fold.report.ready
        return fold.failed(message, line, tentative=True) if alone else fold
    return _failure(fold, process, message, line)


def _failure(fold: VllmLog, process: str | None, message: str, line: str) -> VllmLog:
    in_engine = process in _ENGINE
    if (died := _DIED.match(message)) or _ABORT.match(message):
        text = f"a worker died with exit code {died[1]}" if died else message
        return fold.failed(text, line, tentative=False)
    if bad := _ARGPARSE.match(message):
        return fold.failed(bad[1], line, tentative=False)
    if (in_engine or not fold.report.ready) and _EXCEPTION.match(message):
        return fold.failed(message, line, tentative=not in_engine)
    if fold.tentative and (reason := _REASON.match(message)):
        return fold.failed(reason[1], line, tentative=True)
    return fold


def _weights_progress(fold: VllmLog, _rank: str, message: str) -> VllmLog:
    percents = _PERCENT.findall(message)
    return fold.at("loading weights", int(percents[-1]) / 100 if percents else None)


def _capture_progress(fold: VllmLog, _rank: str, message: str) -> VllmLog:
    percents = _PERCENT.findall(message)
    return fold.at("capturing graphs", int(percents[-1]) / 100 if percents else None)


def _stage(name: str) -> Callable[[VllmLog, str, str], VllmLog]:
    return lambda fold, _rank, _message: fold.at(name)


def _weights(fold: VllmLog, rank: str, message: str) -> VllmLog:
    size = _gib(message)
    if size is None:
        return fold
    weights = {**fold.weights, rank: size}
    return _buffers(replace(fold, weights=weights).known(weights_bytes=sum(weights.values()))).at("profiling memory")


def _pool(fold: VllmLog, rank: str, message: str) -> VllmLog:
    size = _pool_bytes(message)
    if size is None or size < 0:  # nothing is left for a pool: the refusal says so next
        return fold
    size = fold.asked_pool or size
    again = fold.report.figures.kv_tokens is not None and rank in fold.pools  # another start in the same file
    pools = {**({} if again else fold.pools), rank: size}
    return _buffers(replace(fold, pools=pools).known(kv_pool_bytes=min(pools.values()))).at("allocating the cache")


def _pool_bytes(message: str) -> int | None:
    """The pool as each of four lines gives it: available, reserved on request, set explicitly or automatically."""
    if message.startswith("Initial free memory"):
        return _gib(message.partition("reserved")[2])
    if found := re.search(rf"set \(({NUMBER})/", message):
        return round(float(found[1]) * GIB)
    return _gib(message)


def _buffers(fold: VllmLog) -> VllmLog:
    kinds: tuple[tuple[BufferKind, Mapping[str, int]], ...] = (
        ("weights", fold.weights),
        ("kv", fold.pools),
        ("graph", fold.graphs),
        ("compute", fold.activations),
    )
    buffers = [DeviceBuffer(f"rank {rank}", kind, size) for kind, sizes in kinds for rank, size in sizes.items()]
    return fold.known(buffers=tuple(buffers))


def _tokens(fold: VllmLog, _rank: str, message: str) -> VllmLog:
    found = re.search(rf"KV cache size: ({COUNT}) tokens", message)
    fold = fold.known(kv_tokens=_integer(found[1])) if found else fold
    return _concurrency(fold, _rank, message)


def _concurrency(fold: VllmLog, _rank: str, message: str) -> VllmLog:
    found = re.search(rf"Maximum concurrency for ({COUNT}) tokens per request: ({NUMBER})x", message)
    return fold.known(concurrency=float(found[2]), context=_integer(found[1])) if found else fold


def _block(fold: VllmLog, _rank: str, message: str) -> VllmLog:
    found = re.search(r"block size to (\d{1,12}) tokens", message)
    return fold.known(block_size=int(found[1])) if found else fold


def _context(fold: VllmLog, _rank: str, message: str) -> VllmLog:
    found = re.search(r"max model len (\d{1,12})", message)
    known = fold.report.figures.context is not None  # a second line is the drafter's
    return fold.known(context=int(found[1])) if found and not known else fold


def _graphs(fold: VllmLog, rank: str, message: str) -> VllmLog:
    size = _gib(message)
    if size is None:
        return fold
    graphs = {**fold.graphs, rank: size}
    return _buffers(replace(fold, graphs=graphs).known(graph_bytes=sum(graphs.values()))).at("warming up")


def _usage(fold: VllmLog, rank: str, message: str) -> VllmLog:
    fold = _suggested(fold, message)
    found = re.search(rf"({NUMBER}) GiB for peak activation", message)
    if not found:
        return fold
    activations = {**fold.activations, rank: round(float(found[1]) * GIB)}
    fold = replace(fold, activations=activations).known(compute_bytes=sum(activations.values()))
    return _buffers(_told_again(fold, rank, message)).at("warming up")


def _suggested(fold: VllmLog, message: str) -> VllmLog:
    """The pools that a start without a pinned one suggests, in bytes; each the smallest over the ranks."""
    found = _SUGGESTED.search(message)
    if not found:
        return fold
    share, card = int(found[1]), int(found[2])
    known = fold.report.figures.pool_suggestions
    if known is not None:
        share, card = min(share, known[0]), min(card, known[1])
    return fold.known(pool_suggestions=(share, card))


def _told_again(fold: VllmLog, rank: str, message: str) -> VllmLog:
    """What the last memory line repeats; all there is in a log whose earlier lines are lost."""
    pool = re.search(rf"kv cache memory in use is ({NUMBER}) GiB", message)
    if pool and rank not in fold.pools:
        pools = {**fold.pools, rank: fold.asked_pool or round(float(pool[1]) * GIB)}
        fold = replace(fold, pools=pools).known(kv_pool_bytes=min(pools.values()))
    weight = re.search(rf"({NUMBER}) GiB for weight,", message)  # up to 0.26
    if weight and rank not in fold.weights:
        weights = {**fold.weights, rank: round(float(weight[1]) * GIB)}
        fold = replace(fold, weights=weights).known(weights_bytes=sum(weights.values()))
    graph = re.search(rf"({NUMBER}) GiB for CUDAGraph memory", message)
    if graph and rank not in fold.graphs:
        graphs = {**fold.graphs, rank: round(float(graph[1]) * GIB)}
        fold = replace(fold, graphs=graphs).known(graph_bytes=sum(graphs.values()))
    return fold


def _engine_init(fold: VllmLog, _rank: str, message: str) -> VllmLog:
    found = re.search(rf"took ({NUMBER}) s", message)
    return fold.known(engine_init_s=float(found[1])).at("starting the server") if found else fold


def _config(fold: VllmLog, _rank: str, message: str) -> VllmLog:
    version = re.search(r"engine \(v([\w.+]+)\)", message)
    fold = fold.known(version=version[1]) if version else fold
    method = re.search(r"SpeculativeConfig\(method='(\w+)'", message)
    tokens = re.search(r"num_spec_tokens=(\d{1,6})", message)
    if method and tokens:
        fold = _speculating(fold, method[1], int(tokens[1]))
    return fold.at("starting the engine")


def _speculating(fold: VllmLog, method: str, tokens: int | None) -> VllmLog:
    """The method under the name that replaced those of single model families."""
    name = "mtp" if method.endswith("_mtp") else method
    return fold.known(speculation_method=name, speculation_tokens=tokens)


def _drafter(fold: VllmLog, _rank: str, _message: str) -> VllmLog:
    """A log that begins late still shows that there is a draft head."""
    return fold if fold.report.figures.speculation_method else _speculating(fold, "mtp", None)


def _arguments(fold: VllmLog, _rank: str, message: str) -> VllmLog:
    found = re.search(r"'kv_cache_memory_bytes': (\d{1,18})", message)
    asked = re.search(r"'speculative_config': \{([^}]*)\}", message)
    method, tokens = (
        re.search(pattern, asked[1] if asked else "")
        for pattern in (r"'method': '(\w+)'", r"'num_speculative_tokens': (\d{1,6})")
    )
    fold = _speculating(fold, method[1], int(tokens[1]) if tokens else None) if method else fold
    return replace(fold, asked_pool=int(found[1]) if found else None).at("reading the model's config")


def _banner(fold: VllmLog, message: str) -> VllmLog:
    found = _VERSION.search(message)
    return fold.known(version=found[1]) if found else fold


def _ready(fold: VllmLog, _rank: str, _message: str) -> VllmLog:
    """What went wrong on the way was overcome."""
    failure = fold.report.failure if fold.report.ready else None
    return replace(fold, report=replace(fold.report, stage="ready", progress=None, ready=True, failure=failure))


def _gib(message: str) -> int | None:
    found = _FLOAT.search(message)
    return round(float(found[1]) * GIB) if found else None


def _integer(text: str) -> int:
    return int(text.replace(",", ""))


Handler = Callable[[VllmLog, str, str], VllmLog]
_BY_START: tuple[tuple[str, Handler], ...] = (
    ("non-default args:", _arguments),
    ("Using max model len", _context),
    ("Initializing a V1 LLM engine", _config),
    ("Starting to load model", _stage("loading weights")),
    ("Loading model from scratch", _stage("loading weights")),
    ("Loading safetensors checkpoint shards", _weights_progress),
    ("Loading pt checkpoint shards", _weights_progress),
    ("Loading drafter model", _stage("loading the draft model")),
    ("Detected MTP model", _drafter),
    ("Model loading took", _weights),
    ("Setting attention block size", _block),
    ("Warming up model for the compilation", _stage("warming up")),  # the CPU backend's longest stage
    ("Dynamo bytecode transform", _stage("compiling")),
    ("Compiling a graph", _stage("compiling")),
    ("torch.compile", _stage("profiling memory")),
    ("Initial profiling/warmup", _stage("profiling memory")),
    ("Profiling CUDA graph memory", _stage("profiling memory")),
    ("Available KV cache memory", _pool),
    ("Initial free memory", _pool),
    ("Explicitly set", _pool),
    ("Auto set", _pool),
    ("Auto-fit max_model_len", _stage("allocating the cache")),
    ("GPU KV cache size", _tokens),
    ("CPU KV cache size", _tokens),
    ("XPU KV cache size", _tokens),
    ("Maximum concurrency", _concurrency),
    ("Capturing CUDA graphs", _capture_progress),
    ("Graph capturing finished", _graphs),
    ("Free memory on device", _usage),
    ("init engine", _engine_init),
    ("Engine 0", _ready),  # figures of requests that it served, where an excerpt lacks the lines below
    ("Starting vLLM", _stage("starting the server")),
    ("Started server process", _stage("starting the server")),
    ("Available routes are", _ready),
    ("Application startup complete", _ready),
)


def _by_first_word(pairs: tuple[tuple[str, Handler], ...]) -> dict[str, tuple[tuple[str, Handler], ...]]:
    """Most lines match nothing, and this lookup is all they cost."""
    words = {start.partition(" ")[0] for start, _ in pairs}
    return {word: tuple(pair for pair in pairs if pair[0].partition(" ")[0] == word) for word in words}


_HANDLERS = _by_first_word(_BY_START)
