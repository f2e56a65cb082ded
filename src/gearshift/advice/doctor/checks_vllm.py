"""Combinations that are known to be bad in vLLM, by version (reference: vLLM 0.22 to 0.33 and its public threads)."""

from __future__ import annotations

from collections.abc import Iterator

from gearshift.advice.doctor.case import Case
from gearshift.advice.doctor.check import Check, Registered
from gearshift.advice.doctor.finding import Sighting
from gearshift.advice.doctor.speculating import drafted, methods, vllm_config, with_mtp
from gearshift.domain.device import Device
from gearshift.engines.vllm_history import minor_of
from gearshift.planner import lone_verification_s, request_for
from gearshift.planner.variant_request import spreads
from gearshift.planner.vllm_start import resolve, undivided

VLLM: list[Check[Case]] = []
_check = Registered(VLLM).add

_ISSUES = "https://github.com/vllm-project/vllm/issues/"
_PULLS = "https://github.com/vllm-project/vllm/pull/"
_HYBRID_CACHING_DEFAULT = 28  # from 0.28 on prefix caching is on for hybrids unless it is switched off
_ASYNC_DEFAULT = 26
_NO_GGUF = 24
_NO_KV_SCALES = 28
_COLD_START_S = 240.0  # two to four minutes where it was measured, on an SSD, compiling afresh
_TRITON_BREAK_EVEN = 16_384  # tokens: where two cards lost with MTP; one card lost from about 36k
_SIXTEEN_BITS = (None, "auto", "bfloat16", "float16")
_BLACKWELL = 10.0  # compute capability
_CRASHING_DRAFT = 8  # tokens with which two cards crashed under load, twice in two runs


def _minor(case: Case) -> int:
    return minor_of(case.version)


def _hybrid(case: Case) -> bool:
    return case.kind == "vllm" and case.model is not None and case.model.hybrid


def _caches_prefixes(case: Case) -> bool:
    """Whether prefix caching is on: as given, else this version's default for a hybrid model."""
    given = case.on("enable-prefix-caching")
    return _minor(case) >= _HYBRID_CACHING_DEFAULT if given is None else given


def _backend(case: Case) -> str:
    return str(case.arg("attention-backend") or "").upper()


def _on_cpu(case: Case) -> bool:
    return bool(case.box.devices) and not case.gpus


@_check(
    "vllm-mtp-prefix-caching",
    "warning",
    "MTP together with prefix caching on a hybrid model, vLLM 0.27 to 0.33 (on by default from 0.28)",
    why="Drafted tokens are checked against cached state of the wrong block: answers may be wrong without an error.",
    fix="write args enable-prefix-caching: false, or speculation: off",
    link=f"{_ISSUES}53912",
)
def _mtp_prefix_caching(case: Case) -> Iterator[Sighting]:
    if _hybrid(case) and with_mtp(case) and _minor(case) >= 27 and _caches_prefixes(case):  # noqa: PLR2004 - a release
        yield Sighting(
            f"MTP and prefix caching are both on (vLLM {case.version or 'of unknown version'})", "speculation"
        )


@_check(
    "vllm-mtp-async-scheduling",
    "warning",
    "MTP on a Gated DeltaNet hybrid with asynchronous scheduling (the default from 0.26)",
    why="The recurrent state may be written after it was given to another request, which corrupts memory.",
    fix="write args async-scheduling: false, or speculation: off",
    link=f"{_ISSUES}50021",
)
def _mtp_async_scheduling(case: Case) -> Iterator[Sighting]:
    recurrent = case.model.recurrent if case.model else None
    if _on_cpu(case) or not (_hybrid(case) and recurrent and recurrent.kind == "delta" and with_mtp(case)):
        return  # on a CPU vLLM schedules in step whatever is asked for
    given = case.on("async-scheduling")
    if _minor(case) >= _ASYNC_DEFAULT if given is None else given:
        yield Sighting("MTP runs with asynchronous scheduling", "speculation")


@_check(
    "vllm-triton-mtp-depth",
    "warning",
    "TRITON_ATTN with MTP and a window beyond 16k tokens",
    why="Its kernel walks the whole history alone when it verifies drafts; measured: 120 tok/s became 46 at 60k.",
    fix="write args attention-backend: FLASHINFER, or leave the choice to vLLM",
    link=f"{_PULLS}51995",
)
def _triton_mtp_depth(case: Case) -> Iterator[Sighting]:
    deep = case.variant.context or (case.model.context_train if case.model else None) or 0
    if case.kind == "vllm" and _backend(case) == "TRITON_ATTN" and with_mtp(case) and deep > _TRITON_BREAK_EVEN:
        longer = (
            f", where a step takes about {cost_s * 1000:.0f} ms longer"
            if (cost_s := _verification_s(case, deep))
            else ""
        )
        yield Sighting(f"TRITON_ATTN verifies drafts over up to {deep} tokens{longer}", "args.attention-backend")


def _verification_s(case: Case, depth: int) -> float | None:
    """What the kernel loses at ``depth``; None with a cache that is not 16 bits wide, of which nothing is published."""
    if case.model is None or case.variant.kv_dtype not in _SIXTEEN_BITS:
        return None
    elements = sum(layer.key_dim + layer.value_dim for layer in case.model.layers if layer.kind == "full")
    return lone_verification_s(depth, head_token_bytes=2 * elements)


@_check(
    "vllm-flashinfer-speculation-graphs",
    "note",
    "FLASHINFER with speculation on a GPU older than Blackwell",
    why="Full CUDA graphs fall back to piecewise ones there, so each step costs more launches.",
    fix="compare with FLASH_ATTN on this card before settling",
    link="https://docs.vllm.ai/en/latest/design/cuda_graphs.html",
)
def _flashinfer_speculation_graphs(case: Case) -> Iterator[Sighting]:
    older = [gpu for gpu in case.gpus if case.box.compute.get(gpu.id, _BLACKWELL) < _BLACKWELL]
    if case.kind == "vllm" and _backend(case) == "FLASHINFER" and methods(case) and older:
        yield Sighting(f"speculation on {older[0].name} runs with piecewise graphs", "args.attention-backend")


@_check(
    "vllm-block-size-hybrid",
    "error",
    "an explicit block-size on a hybrid model",
    why="vLLM has to align attention and state pages itself; with a size of yours it reads outside them and crashes.",
    fix="remove block-size",
    link=f"{_ISSUES}53142",
)
def _block_size_hybrid(case: Case) -> Iterator[Sighting]:
    if _hybrid(case) and (given := case.arg("block-size")) is not None:
        yield Sighting(f"block-size {given} is given for a hybrid model", "args.block-size")


@_check(
    "vllm-calculate-kv-scales",
    "warning",
    "calculate-kv-scales before 0.28, where it was removed",
    why="It is ignored on hybrids, and model cards warn that it damages the cache elsewhere.",
    fix="remove calculate-kv-scales; use a checkpoint with calibrated scales",
    link=f"{_ISSUES}37554",
)
def _calculate_kv_scales(case: Case) -> Iterator[Sighting]:
    removed = _minor(case) >= _NO_KV_SCALES  # engine-flags says so
    if case.kind == "vllm" and not removed and case.on("calculate-kv-scales"):
        yield Sighting("KV scales are computed from the first tokens that come along", "args.calculate-kv-scales")


@_check(
    "vllm-gguf",
    "error",
    "GGUF weights on vLLM 0.24 or newer",
    why="Loading GGUF left vLLM for a plugin in 0.24.",
    fix="run the file with llama.cpp, use a safetensors checkpoint, or add vllm-gguf-plugin to vLLM's environment",
    link=f"{_ISSUES}39583",
)
def _gguf_weights(case: Case) -> Iterator[Sighting]:
    named = (case.variant.weights or "").lower().endswith(".gguf")
    if case.kind == "vllm" and _minor(case) >= _NO_GGUF and (named or (case.model and case.model.format == "gguf")):
        yield Sighting(f"vLLM {case.version or ''} cannot load {case.variant.weights}".replace("  ", " "), "weights")


@_check(
    "vllm-mamba-chunked-prefill",
    "error",
    "prefix caching on a hybrid model with chunked prefill switched off",
    why="The cache mode `align` cuts prompts at block boundaries, which needs chunked prefill.",
    fix="remove enable-chunked-prefill: false, or switch prefix caching off",
    link="https://docs.vllm.ai/en/latest/features/automatic_prefix_caching.html",
)
def _mamba_chunked_prefill(case: Case) -> Iterator[Sighting]:
    if _hybrid(case) and _caches_prefixes(case) and case.on("enable-chunked-prefill") is False:
        yield Sighting("prefix caching is on, chunked prefill is off", "args.enable-chunked-prefill")


@_check(
    "vllm-prefix-caching-default",
    "note",
    "a hybrid model whose variant leaves prefix caching to the version's default",
    why="The default was off up to 0.27 and is on from 0.28: an upgrade changes memory, speed and risk.",
    fix="write args enable-prefix-caching: true or false",
    link=f"{_ISSUES}53912",
)
def _prefix_caching_default(case: Case) -> Iterator[Sighting]:
    if _hybrid(case) and case.on("enable-prefix-caching") is None:
        state = "on" if _caches_prefixes(case) else "off"
        yield Sighting(f"prefix caching is {state} because this version says so", "args")


@_check(
    "vllm-prefix-caching-hybrid",
    "note",
    "prefix caching asked for on a hybrid model",
    why="vLLM calls its cache mode for hybrids experimental. It is worth a lot in long chats.",
    fix="if answers come out broken, switch it off before anything else",
    link=f"{_ISSUES}53912",
)
def _prefix_caching_hybrid(case: Case) -> Iterator[Sighting]:
    if _hybrid(case) and case.on("enable-prefix-caching"):
        yield Sighting("the experimental cache mode for hybrids is used", "args.enable-prefix-caching")


@_check(
    "vllm-pool-refused",
    "error",
    "a KV pool in bytes that is smaller than vLLM starts with, for the context or for the sequences asked for",
    why="vLLM loads all weights, computes this and ends; its arithmetic says it before.",
    fix="set kv_bytes to that, or auto; or lower context, or parallel on a hybrid (gearshift plan tells what fits)",
    link="docs/planner.md",
)
def _pool_refused(case: Case) -> Iterator[Sighting]:
    if case.kind != "vllm" or case.model is None or not case.model.keeps_anything or case.version is None:
        return
    if spreads(case.variant) or case.arg("num-gpu-blocks-override") is not None:
        return
    request = request_for(case.variant, _devices(case), engine_version=case.version)
    start = resolve(request, case.model)
    if request.kv_bytes is None or not start.layout.exact or request.kv_bytes >= start.accepted_pool:
        return
    key = "kv_bytes" if case.variant.kv_bytes is not None else "args.kv-cache-memory-bytes"
    asked = f"one request of {start.context:,} tokens, {start.limits.sequences} sequences at most"
    yield Sighting(f"{request.kv_bytes} bytes, where vLLM asks for {start.accepted_pool} ({asked})", key)


def _devices(case: Case) -> tuple[Device, ...]:
    """What it runs on; GPUs that it names and this box does not have count as well."""
    named = tuple(Device(str(gpu), None, "", 0) for gpu in case.variant.gpus or ())
    return case.gpus if len(case.gpus) >= len(named) and case.gpus else named or case.box.devices


@_check(
    "vllm-utilization-ignored",
    "note",
    "gpu-memory-utilization beside a KV pool given in bytes",
    why="With the pool in bytes it no longer sizes anything: it is only a share that has to be free at the start.",
    fix="keep it low enough that the start is not refused, and size the pool by kv_bytes",
    link="docs/planner.md",
)
def _utilization_ignored(case: Case) -> Iterator[Sighting]:
    pinned = case.variant.kv_bytes is not None or case.arg("kv-cache-memory-bytes") is not None
    if case.kind == "vllm" and pinned and case.arg("gpu-memory-utilization") is not None:
        yield Sighting("the pool is given in bytes, so this is a start gate only", "args.gpu-memory-utilization")


@_check(
    "vllm-load-timeout",
    "warning",
    f"a load timeout below {_COLD_START_S:.0f} s for vLLM on a GPU",
    why="A first start compiles and captures graphs for minutes, and would be ended half-way each time.",
    fix="raise load_timeout; a start that hangs is ended by its stall timeout",
    link="docs/configuration.md",
)
def _load_timeout(case: Case) -> Iterator[Sighting]:
    timeout_s = case.variant.timing.load_timeout_s
    if case.kind == "vllm" and case.gpus and timeout_s < _COLD_START_S:
        yield Sighting(f"a start is given up after {timeout_s:.0f} s", "load_timeout")


@_check(
    "vllm-mtp-cpu-hybrid",
    "error",
    "MTP on a hybrid model with vLLM on the CPU",
    why="It starts, and the worker dies of memory corruption at the first request (seen with 0.32).",
    fix="write speculation: off, or use llama.cpp for this model on the CPU",
    link="docs/doctor.md",
)
def _mtp_cpu_hybrid(case: Case) -> Iterator[Sighting]:
    if _hybrid(case) and with_mtp(case) and _on_cpu(case):
        yield Sighting("MTP on a hybrid model kills vLLM's CPU worker", "speculation")


@_check(
    "vllm-many-draft-tokens",
    "error",
    "eight or more MTP tokens with tensor parallelism",
    why="Long drafts led to illegal memory accesses under load, each time it was tried.",
    fix="draft 3 tokens or fewer",
    link=f"{_ISSUES}40756",
)
def _many_draft_tokens(case: Case) -> Iterator[Sighting]:
    if case.kind == "vllm" and with_mtp(case) and len(case.gpus) > 1 and drafted(case) >= _CRASHING_DRAFT:
        yield Sighting(f"{drafted(case)} draft tokens on {len(case.gpus)} GPUs", "speculation.tokens")


@_check(
    "vllm-min-p-speculation",
    "warning",
    "min_p or logit_bias as configured sampling beside speculation",
    why="vLLM leaves both out while it speculates: answers are sampled otherwise than the file says.",
    fix="remove them from sampling, or write speculation: off",
    link="https://docs.vllm.ai/en/latest/features/spec_decode.html",
)
def _min_p_speculation(case: Case) -> Iterator[Sighting]:
    for name in ("min_p", "logit_bias"):
        if case.kind == "vllm" and methods(case) and case.variant.sampling.get(name):
            yield Sighting(f"{name} has no effect while vLLM speculates", f"sampling.{name}")


@_check(
    "vllm-synthetic-acceptance",
    "error",
    "synthetic acceptance in a variant that serves",
    why="Drafts are accepted by dice, not by the model: the text is not the model's. It is for benchmarks.",
    fix="remove rejection_sample_method and synthetic_* from speculative-config",
    link="https://docs.vllm.ai/en/latest/features/spec_decode.html",
)
def _synthetic_acceptance(case: Case) -> Iterator[Sighting]:
    if case.kind == "vllm" and vllm_config(case).get("rejection_sample_method") == "synthetic":
        yield Sighting("drafts are accepted at random", "args.speculative-config")


@_check(
    "vllm-heads-by-gpus",
    "error",
    "a number of GPUs that does not divide the model's heads, of each kind",
    why="Tensor parallelism gives each GPU the same number of heads; vLLM refuses anything else.",
    fix="name a number of GPUs that divides them",
    link="https://docs.vllm.ai/en/latest/serving/parallelism_scaling.html",
)
def _heads_by_gpus(case: Case) -> Iterator[Sighting]:
    spread = case.arg("pipeline-parallel-size") or case.arg("data-parallel-size")
    ranks = 1 if spread else max(len(case.gpus), 1)
    reason = undivided(case.model, ranks) if case.kind == "vllm" and case.model else None
    if reason:
        yield Sighting(reason, "gpus")


def _from_hub(case: Case) -> bool:
    weights = case.variant.weights
    return case.kind == "vllm" and weights is not None and not weights.startswith("/")


@_check(
    "hub-not-fetched",
    "note",
    "weights named by a hub id that are not on this box yet",
    why="The first start downloads them within its load timeout, and what their files say could not be checked.",
    fix="fetch them before: gearshift lock, then gearshift pull",
    link="docs/recipes.md",
)
def _hub_not_fetched(case: Case) -> Iterator[Sighting]:
    if _from_hub(case) and case.weights is None:
        yield Sighting(f"{case.variant.weights} is not in the hub's cache", "weights")


@_check(
    "hub-unpinned",
    "note",
    "weights named by a hub id without a revision",
    why="The repository's main branch may change between two starts: weights, tokenizer or chat template.",
    fix="write args revision: COMMIT, or pin the variant with gearshift lock",
    link="docs/recipes.md",
)
def _hub_unpinned(case: Case) -> Iterator[Sighting]:
    if _from_hub(case) and case.arg("revision") is None and case.pins is None:
        yield Sighting(f"{case.variant.weights} is whatever its main branch holds at the next start", "weights")
