"""From a configured variant to a `PlanRequest`: neutral fields first, then the engine's own flags and environment."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gearshift.artifacts.facts import Rope
from gearshift.artifacts.hf_config import HfConfig, context_of, rope_of
from gearshift.domain.device import CPU_DEVICE, Device
from gearshift.domain.units import GIB, MIB, parse_bytes, parse_tokens
from gearshift.domain.variant import ArgValue, Speculation, Variant
from gearshift.planner.calibration import Calibration
from gearshift.planner.request import WHOLE_WINDOW, PlannedDevice, PlanRequest, Split, is_mtp

_SPLITS: dict[str, Split] = {"none": "none", "layer": "layer", "row": "layer", "tensor": "tensor"}
_OVERRIDES = ("override-tensor", "ot", "n-cpu-moe", "ncmoe", "cpu-moe", "n-cpu-ffn", "ncffn")
_CONTEXT_LENGTH = re.compile(r"\.context_length=int:(\d+)")
_SPREADING = ("pipeline-parallel-size", "data-parallel-size")
AUTO_SLOTS = 4  # what our adapter asks llama-server for, as the engine itself would, with one unified cache


@dataclass(frozen=True, slots=True)
class Flags:
    """A variant's ``args``, read by any of a flag's names."""

    variant: Variant

    def find(self, *names: str) -> ArgValue:
        """The first of these flags that is set; None when none is."""
        return next((self.variant.args[name] for name in names if self.variant.args.get(name) is not None), None)

    def text(self, *names: str) -> str | None:
        value = self.find(*names)
        return None if value is None or isinstance(value, tuple) else str(value)

    def number(self, *names: str) -> int | None:
        """A count; vLLM's ``32k`` and ``32K`` are understood. None where it is absent or no number."""
        value = self.find(*names)
        try:
            return parse_tokens(value) if isinstance(value, str | int | float) else None
        except (ValueError, OverflowError):  # .inf is a number in YAML
            return None

    def switch(self, name: str) -> bool | None:
        """``--name``, ``--no-name`` or neither; a bare flag is stored as None or True, its negation as False."""
        for flag, meaning in ((name, True), (f"no-{name}", False)):
            if flag in self.variant.args:
                return meaning if self.variant.args[flag] is not False else not meaning
        return None


def planned_devices(variant: Variant, devices: Sequence[Device]) -> tuple[Device, ...]:
    """The devices a variant may use, in its own order: GPUs by index or UUID, else every GPU, else the CPU."""
    if variant.gpus is not None and any(device.id != CPU_DEVICE for device in devices):
        named = {key: device for device in devices for key in (device.id, device.index, str(device.index))}
        return tuple(named[gpu] for gpu in variant.gpus if gpu in named)
    gpus = tuple(device for device in devices if device.id != CPU_DEVICE)
    return gpus or tuple(devices)


def spreads(variant: Variant) -> str | None:
    """The flag that spreads a vLLM model over pipeline or data parallel ranks, which this planner does not know."""
    flags = Flags(variant)
    return next((name for name in _SPREADING if (flags.number(name) or 1) > 1), None)


def draft_weights(variant: Variant) -> str | None:
    """Where the variant says that its separate draft model is, in its own field or under the engine's flags."""
    read = _vllm_speculation if variant.engine.kind == "vllm" else _llamacpp_speculation
    speculation = read(Flags(variant), variant)
    return speculation.draft if speculation else None


def request_for(
    variant: Variant,
    devices: Sequence[Device],
    *,
    engine_version: str | None,
    calibration: Calibration | None = None,
) -> PlanRequest:
    """The request of one variant. ``kv_bytes: auto`` is left open for the caller to resolve."""
    on_cpu = all(device.id == CPU_DEVICE for device in devices)
    base = PlanRequest(
        engine=variant.engine.kind,
        devices=tuple(PlannedDevice(device.id, device.total_bytes, device.name) for device in devices),
        version=engine_version or variant.engine.version,
        device_kind="cpu" if on_cpu else "cuda",
        calibration=calibration,
    )
    return _vllm(base, variant) if variant.engine.kind == "vllm" else _llamacpp(base, variant)


def _vllm(base: PlanRequest, variant: Variant) -> PlanRequest:
    flags = Flags(variant)
    ranks = flags.number("tensor-parallel-size") or len(base.devices)
    return replace(
        base,
        devices=base.devices[: max(ranks, 1)],
        context=_context(flags, variant, "max-model-len"),
        **_overridden(flags),
        longer_allowed=variant.env.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN") in {"1", "true", "True"},
        kv_dtype=flags.text("kv-cache-dtype") or variant.kv_dtype,
        kv_bytes=_pool(flags, variant, on_cpu=base.device_kind == "cpu"),
        memory_share=_share(flags),
        dtype=flags.text("dtype"),
        parallel=flags.number("max-num-seqs") or variant.parallel,
        max_num_batched_tokens=flags.number("max-num-batched-tokens"),
        block_size=flags.number("block-size"),
        cache_mode=flags.text("mamba-cache-mode"),
        state_dtype=_not_auto(flags.text("mamba-ssm-cache-dtype")),
        conv_dtype=_not_auto(flags.text("mamba-cache-dtype")),
        prefix_caching=flags.switch("enable-prefix-caching"),
        async_scheduling=flags.switch("async-scheduling"),
        eager=flags.switch("enforce-eager") is True,
        text_only=flags.switch("language-model-only") is True,
        speculation=_vllm_speculation(flags, variant),
        any_draft_vocabulary=(_vllm_config(flags) or {}).get("use_heterogeneous_vocab") is True,
    )


def _llamacpp(base: PlanRequest, variant: Variant) -> PlanRequest:
    flags = Flags(variant)
    slots = flags.number("parallel", "np") or variant.parallel or AUTO_SLOTS
    unified = flags.switch("kv-unified")
    speculation = _llamacpp_speculation(flags, variant)
    return replace(
        base,
        split=_SPLITS.get(flags.text("split-mode", "sm") or "layer", "layer"),
        shares=_shares(flags.text("tensor-split", "ts")),
        gpu_layers=_gpu_layers(flags.text("gpu-layers", "n-gpu-layers", "ngl")),
        context=WHOLE_WINDOW if flags.number("ctx-size", "c") == 0 else _context(flags, variant, "ctx-size", "c"),
        positions=_overridden_length(flags),
        rope=_rope(flags),
        kv_dtype=_cache_types(flags, ("cache-type-k", "ctk"), ("cache-type-v", "ctv"), variant.kv_dtype),
        draft_kv_dtype=_cache_types(
            flags, ("cache-type-k-draft", "ctkd"), ("cache-type-v-draft", "ctvd"), variant.kv_dtype
        ),
        parallel=slots,
        unified_kv=slots > 1 if unified is None else unified,
        caches_on_host=flags.switch("kv-offload") is False,
        overrides=any(name in variant.args for name in _OVERRIDES),
        full_sliding_cache=flags.switch("swa-full") is True,
        batch=flags.number("batch-size", "b") or base.batch,
        ubatch=flags.number("ubatch-size", "ub") or base.ubatch,
        prompt_cache=_mebibytes(flags, "cache-ram", "cram"),
        checkpoints=_count(flags.number("ctx-checkpoints", "ctxcp"), base.checkpoints),
        checkpoint_spacing=flags.number("checkpoint-min-step", "cms") or base.checkpoint_spacing,
        speculation=speculation,
    )


def _mebibytes(flags: Flags, *names: str) -> int | None:
    """Bytes of a whole number of MiB; -1 is one too."""
    value = _real(flags.text(*names))
    return None if value is None or not math.isfinite(value) else int(value) * MIB


def _count(given: int | None, default: int) -> int:
    """0 is a count of its own."""
    return default if given is None else given


def _context(flags: Flags, variant: Variant, *names: str) -> int | None:
    """The window asked for; None where it is left to the engine (0, -1, auto)."""
    return flags.number(*names) or variant.context or None


def _overridden(flags: Flags) -> dict[str, Any]:
    """What vLLM's hf-overrides put in place of the config's positions."""
    try:
        config = json.loads(flags.text("hf-overrides") or "{}")
    except ValueError:
        return {}
    overrides = HfConfig(config if isinstance(config, dict) else {}, "hf-overrides")
    return {"positions": context_of(overrides), "rope": rope_of(overrides)}


def _overridden_length(flags: Flags) -> int | None:
    """The length of llama.cpp's ``--override-kv ARCH.context_length=int:N``."""
    found = _CONTEXT_LENGTH.search(flags.text("override-kv") or "")
    return int(found[1]) if found else None


def _rope(flags: Flags) -> Rope | None:
    """llama.cpp's own scaling of positions, by factor or by its inverse."""
    kind, original = flags.text("rope-scaling"), flags.number("yarn-orig-ctx")
    factor, inverse = _real(flags.text("rope-scale")), _real(flags.text("rope-freq-scale"))
    stretched = factor or (1 / inverse if inverse else None)
    return Rope(kind, stretched, original or None) if kind or stretched or original else None


def _real(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None


def _pool(flags: Flags, variant: Variant, *, on_cpu: bool) -> int | None:
    """The pinned pool of vLLM. On a CPU our adapter bounds it, since the engine's own default is most of the memory."""
    pinned = flags.text("kv-cache-memory-bytes", "kv-cache-memory")
    if pinned is not None:
        return _size(pinned)
    if isinstance(variant.kv_bytes, int):
        return variant.kv_bytes
    gib = variant.env.get("VLLM_CPU_KVCACHE_SPACE", "") if on_cpu else ""
    if gib.isdigit() and int(gib):
        return int(gib) * GIB
    return GIB if on_cpu and variant.kv_bytes is None else None


def _size(text: str) -> int | None:
    for parse in (parse_tokens, parse_bytes):
        try:
            return parse(text)
        except ValueError:
            continue
    return None


def _share(flags: Flags) -> float | None:
    return _real(flags.text("gpu-memory-utilization", "device-memory-utilization"))


def _not_auto(name: str | None) -> str | None:
    return None if name in {None, "auto"} else name


def _vllm_speculation(flags: Flags, variant: Variant) -> Speculation | None:
    config = _vllm_config(flags)
    if config is None:
        return _switched_on(variant.speculation)
    tokens, model = config.get("num_speculative_tokens"), config.get("model")
    method = str(config.get("method") or "draft_model")
    apart = isinstance(model, str) and not is_mtp(method) and not method.startswith("ngram")
    return Speculation(method, tokens if isinstance(tokens, int) else None, model if apart else None)


def _vllm_config(flags: Flags) -> Mapping[str, Any] | None:
    """The JSON of ``speculative-config``; None where there is none that can be read."""
    text = flags.text("speculative-config")
    try:
        config = json.loads(text) if text else None
    except ValueError:
        return None
    return config if isinstance(config, dict) else None


def _llamacpp_speculation(flags: Flags, variant: Variant) -> Speculation | None:
    kinds, tokens = flags.text("spec-type"), flags.number("spec-draft-n-max", "draft-max")
    chosen = _switched_on(variant.speculation)
    if kinds is not None:
        names = kinds.split(",")
        chosen = Speculation(next((name for name in names if is_mtp(name)), names[0]))
        chosen = _switched_on(chosen)
    model = flags.text("spec-draft-model", "model-draft", "md")
    if model is not None:
        chosen = replace(chosen or Speculation("draft"), draft=model)
    return replace(chosen, tokens=tokens) if chosen and tokens else chosen


def _switched_on(speculation: Speculation | None) -> Speculation | None:
    return None if speculation is None or speculation.method in {"off", "none"} else speculation


def _shares(text: str | None) -> tuple[float, ...] | None:
    try:
        return tuple(float(part) for part in text.replace("/", ",").split(",")) if text else None
    except ValueError:
        return None


def _gpu_layers(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None


def _cache_types(flags: Flags, keys: tuple[str, ...], values: tuple[str, ...], neutral: str | None) -> str | None:
    """``K,V`` from the engine's two flags over the neutral field, which is one type or ``K,V``."""
    neutral_key, _, neutral_value = (neutral or "f16").partition(",")
    key = flags.text(*keys) or neutral_key.strip()
    return f"{key},{flags.text(*values) or (neutral_value or neutral_key).strip()}"
