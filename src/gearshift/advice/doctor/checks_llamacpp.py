"""Combinations that are known to be bad in llama.cpp, by build (reference: b11434, its source and public threads)."""

from __future__ import annotations

from collections.abc import Iterator

from gearshift.advice.doctor.case import Case
from gearshift.advice.doctor.check import Check, Registered
from gearshift.advice.doctor.finding import Sighting
from gearshift.advice.doctor.speculating import methods, with_mtp
from gearshift.artifacts import ModelFacts
from gearshift.domain.units import format_bytes
from gearshift.planner import PlanRequest, planned_devices, request_for
from gearshift.planner.llamacpp_checkpoints import full_slot_bytes
from gearshift.planner.llamacpp_host import prompt_cache_limit

LLAMACPP: list[Check[Case]] = []
_check = Registered(LLAMACPP).add

_ISSUES = "https://github.com/ggml-org/llama.cpp/issues/"
_GUIDE = "https://github.com/ggml-org/llama.cpp/blob/master/docs/multi-gpu.md"
_SERVER = "https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md"
_BROKEN_MTP = range(10741, 10744)
_NO_SHIFT = ("qwen35", "qwen35moe")  # interleaved rotary positions cannot be shifted
_LONG_WINDOW = 32_768  # tokens: an unasked window beyond this surprises a 24 GB card
_MISTRUSTED = {"off", "false", "0", "disabled"}


def _here(case: Case) -> bool:
    return case.kind == "llama.cpp"


def _split(case: Case) -> str:
    return str(case.arg("split-mode") or "layer")


def _flash_off(case: Case) -> bool:
    return str(case.arg("flash-attn")).lower() in _MISTRUSTED


@_check(
    "llamacpp-row-split",
    "error",
    "split-mode row on GPUs",
    why='The load ends with "does not support split buffers"; where older builds ran it, it was the slowest mode.',
    fix="write args split-mode: tensor, or remove it for the default, layer",
    link=f"{_ISSUES}27465",
)
def _row_split(case: Case) -> Iterator[Sighting]:
    if _here(case) and _split(case) == "row" and case.gpus:
        yield Sighting("split-mode row does not load on CUDA or HIP", "args.split-mode")


@_check(
    "llamacpp-tensor-split-flash",
    "error",
    "split-mode tensor with flash attention off",
    why="Tensor split needs flash attention and refuses to start without it.",
    fix="remove flash-attn, or set it on",
    link=_GUIDE,
)
def _tensor_split_flash(case: Case) -> Iterator[Sighting]:
    if _here(case) and _split(case) == "tensor" and _flash_off(case):
        yield Sighting("split-mode tensor is asked for, flash attention is off", "args.flash-attn")


@_check(
    "llamacpp-tensor-split-cpu-kv",
    "error",
    "split-mode tensor with the KV cache kept in RAM",
    why="The combination is broken: the split caches are never given to the CPU.",
    fix="remove no-kv-offload",
    link="https://github.com/GenerelSchwerz/llama.cpp/pull/66",
)
def _tensor_split_cpu_kv(case: Case) -> Iterator[Sighting]:
    kept_in_ram = case.on("no-kv-offload") or case.on("kv-offload") is False
    if _here(case) and _split(case) == "tensor" and kept_in_ram:
        yield Sighting("split-mode tensor with the KV cache in RAM", "args.no-kv-offload")


@_check(
    "llamacpp-tensor-split-sampler",
    "note",
    "split-mode tensor: sampling and drafting move to the CPU",
    why="llama.cpp says so in one log line only. On two cards it was the fastest mode even so (70 against 52 tok/s).",
    fix="nothing, unless the CPU is slow or busy; then compare with split-mode layer",
    link=_GUIDE,
)
def _tensor_split_sampler(case: Case) -> Iterator[Sighting]:
    if _here(case) and _split(case) == "tensor" and len(case.gpus) > 1:
        yield Sighting("target and draft are sampled on the CPU", "args.split-mode")


@_check(
    "llamacpp-layer-split",
    "note",
    "two or more GPUs with the default split mode",
    why="Layer split brings room, not speed: one card works at a time. Tensor split was 35 % faster without P2P.",
    fix="try args split-mode: tensor",
    link=_GUIDE,
)
def _layer_split(case: Case) -> Iterator[Sighting]:
    if _here(case) and len(case.gpus) > 1 and case.arg("split-mode") is None:
        yield Sighting(f"{len(case.gpus)} GPUs take turns, layer by layer", "args")


@_check(
    "llamacpp-mtp-build",
    "error",
    f"MTP on builds {_BROKEN_MTP[0]} to {_BROKEN_MTP[-1]}",
    why="These builds cannot start draft-mtp at all; b10749 can again.",
    fix="gearshift engine install llama.cpp for a newer build, or write speculation: off",
    link=f"{_ISSUES}28196",
)
def _mtp_build(case: Case) -> Iterator[Sighting]:
    build = (case.version or "").removeprefix("b").partition(".")[0]
    if _here(case) and with_mtp(case) and build.isdigit() and int(build) in _BROKEN_MTP:
        yield Sighting(f"build {build} fails with draft-mtp", "engine")


@_check(
    "llamacpp-mtp-ngram",
    "warning",
    "draft-mtp and ngram-mod together",
    why="Segmentation faults are reported for the pair.",
    fix="keep one of them",
    link=f"{_ISSUES}23929",
)
def _mtp_ngram(case: Case) -> Iterator[Sighting]:
    if _here(case) and {"mtp", "ngram-mod"} <= methods(case):
        yield Sighting("two drafters at once: MTP and ngram-mod", "speculation")


@_check(
    "llamacpp-mtp-slots",
    "note",
    "MTP with more than one slot",
    why="Where it was measured a second slot cost a fifth of one stream's speed, and MTP gained nothing at 2 to 4.",
    fix="measure it here: gearshift bench speculation --levels 1,2,4; or write parallel: 1",
    link="https://github.com/sudoingX/qwen38-mtp",
)
def _mtp_slots(case: Case) -> Iterator[Sighting]:
    if _here(case) and with_mtp(case) and (case.variant.parallel or 1) > 1:
        yield Sighting(f"MTP with {case.variant.parallel} slots", "parallel")


@_check(
    "llamacpp-mmproj-mtp",
    "warning",
    "an image projector together with MTP",
    why="The draft head does not see images: acceptance drops after one, and on some models the pair crashed.",
    fix="keep images and MTP in two variants",
    link="https://github.com/ggml-org/llama.cpp/pull/23398",
)
def _mmproj_mtp(case: Case) -> Iterator[Sighting]:
    if _here(case) and with_mtp(case) and case.arg("mmproj") is not None:
        yield Sighting("images and MTP in one variant", "args.mmproj")


@_check(
    "llamacpp-cache-reuse",
    "warning",
    "cache-reuse or context-shift where the model cannot do it (qwen35, sliding windows, images)",
    why="llama.cpp switches it off with a warning in the log; prompts are read again instead.",
    fix="remove it; hybrids reuse prompts through checkpoints (ctx-checkpoints, checkpoint-min-step)",
    link=f"{_ISSUES}18497",
)
def _cache_reuse(case: Case) -> Iterator[Sighting]:
    if not _here(case) or case.model is None:
        return
    windowed = case.model.count("sliding") > 0 and not case.on("swa-full")
    fixed = case.model.family in _NO_SHIFT or case.model.hybrid or windowed
    if not fixed and case.arg("mmproj") is None:
        return
    for name in ("cache-reuse", "context-shift"):
        if case.on(name) and case.arg(name) != 0:
            yield Sighting(f"{name} has no effect on {case.model.family}", f"args.{name}")


@_check(
    "llamacpp-quantized-values",
    "error",
    "a quantized V cache with flash attention off",
    why="llama.cpp refuses to start: quantized values need flash attention.",
    fix="remove flash-attn, or use f16 values: kv_dtype: q8_0,f16",
    link=_SERVER,
)
def _quantized_values(case: Case) -> Iterator[Sighting]:
    keys, _, values = (case.variant.kv_dtype or "").partition(",")
    kind = (values or keys).strip() or str(case.arg("cache-type-v") or "f16")
    if _here(case) and _flash_off(case) and kind not in {"f16", "f32", "bf16"}:
        yield Sighting(f"values in {kind}, flash attention off", "kv_dtype")


@_check(
    "llamacpp-context-unset",
    "warning",
    "no context given for a model trained on a long one",
    why="Without one llama.cpp takes the whole window and may shrink it silently until it fits, down to 4096 tokens.",
    fix="write context: with the window you need",
    link=_SERVER,
)
def _context_unset(case: Case) -> Iterator[Sighting]:
    trained = case.model.context_train if case.model else None
    if _here(case) and not case.variant.context and case.arg("ctx-size") in {None, 0} and (trained or 0) > _LONG_WINDOW:
        yield Sighting(f"the window is left to llama.cpp; the model was trained on {trained} tokens", "context")


@_check(
    "llamacpp-host-cache",
    "warning",
    "llama.cpp's prompt cache (8 GiB unless set) and checkpoints larger than the RAM that is free",
    why="Saved prompts, and with MTP their growing checkpoints, are kept in host memory until the box swaps or kills.",
    fix="write args cache-ram: MIB with a figure that fits, or 0",
    link=_SERVER,
)
def _host_cache(case: Case) -> Iterator[Sighting]:
    free = case.box.memory.available_bytes if case.box.memory else None
    if not _here(case) or free is None:
        return
    request = request_for(case.variant, case.box.devices, engine_version=case.version)
    limit, kept = prompt_cache_limit(request), _kept(request, case.model)
    if limit is None:
        yield Sighting(f"the prompt cache has no limit, {format_bytes(free)} of RAM are free", "args.cache-ram")
    elif limit and limit + kept > free:
        beside = f" and checkpoints {format_bytes(kept)}" if kept else ""
        what = f"the prompt cache may take {format_bytes(limit)}{beside}, {format_bytes(free)} of RAM are free"
        yield Sighting(what, "args.cache-ram")


def _kept(request: PlanRequest, model: ModelFacts | None) -> int:
    """Checkpoints of full slots; 0 where nothing is known of the model, or llama.cpp has no such cache type."""
    try:
        return full_slot_bytes(request, model) if model else 0
    except ValueError:  # engine-flags says so
        return 0


@_check(
    "llamacpp-checkpoints",
    "warning",
    "context checkpoints of a full window larger than the RAM that is free (hybrids, sliding windows)",
    why="A slot keeps 32 of them in RAM, and with MTP each grows with the context: the box swaps or kills as it fills.",
    fix="write args ctx-checkpoints: 8, a larger checkpoint-min-step, or a smaller cache-type-k-draft",
    link="docs/planner.md",
)
def _checkpoints(case: Case) -> Iterator[Sighting]:
    free = case.box.memory.available_bytes if case.box.memory else None
    devices = planned_devices(case.variant, case.box.devices)
    if not (_here(case) and case.model and devices and free is not None):
        return
    kept = _kept(request_for(case.variant, devices, engine_version=case.version), case.model)
    if kept > free:
        what = f"checkpoints may take {format_bytes(kept)}, {format_bytes(free)} of RAM are free"
        yield Sighting(what, "args.ctx-checkpoints")


@_check(
    "llamacpp-mlock",
    "warning",
    "weights to be locked in RAM beyond what this user may lock",
    why="Locking fails, the pages stay evictable, and the first request after a pause is slow.",
    fix="raise the limit (ulimit -l, LimitMEMLOCK=infinity), or write args load-mode: mmap",
    link=_SERVER,
)
def _mlock(case: Case) -> Iterator[Sighting]:
    locked = "mlock" in str(case.arg("load-mode") or "") or case.on("mlock")
    limit = case.box.memlock_bytes
    weights = sum(file.bytes for file in case.model.files) if case.model else 0
    if _here(case) and locked and limit is not None and weights > limit:
        what = f"{format_bytes(weights)} of weights, {format_bytes(limit)} may be locked"
        yield Sighting(what, "args.load-mode")


@_check(
    "llamacpp-gpus-hidden",
    "warning",
    "an empty CUDA_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES in the variant's environment on a box with GPUs",
    why="It hides every GPU: llama.cpp then runs on the CPU without an error.",
    fix="remove the variable; gpus: says which ones are used",
    link="docs/configuration.md",
)
def _gpus_hidden(case: Case) -> Iterator[Sighting]:
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        if _here(case) and case.box.gpus and case.variant.env.get(name) == "":
            yield Sighting(f"{name} is empty", f"env.{name}")
