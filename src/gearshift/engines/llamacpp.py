"""llama.cpp: a variant as a ``llama-server`` start."""

from __future__ import annotations

from gearshift.domain.launch import LaunchSpec, MetricNames, StopRule
from gearshift.domain.variant import Variant
from gearshift.engines.adapter import LOOPBACK, LaunchRequest, is_local
from gearshift.engines.arguments import Default, arguments, given_value
from gearshift.engines.environment import child_environment, visible_devices
from gearshift.engines.flags import find_flag
from gearshift.engines.llamacpp_log import LlamaCppLog
from gearshift.engines.speculation import is_off, llamacpp_speculation

AUTO_SLOTS = 4  # what llama-server itself takes without -np, with one unified KV pool
_LOG_LEVEL = 4  # the level at which buffer sizes and fit results appear
METRICS = MetricNames(
    drafts="llamacpp:spec_decode_num_drafts_total",
    draft_tokens="llamacpp:spec_decode_num_draft_tokens_total",
    accepted_tokens="llamacpp:spec_decode_num_accepted_tokens_total",
    accepted_per_position="llamacpp:spec_decode_num_accepted_tokens_per_pos_total",
    prompt_tokens="llamacpp:prompt_tokens_total",
    generation_tokens="llamacpp:tokens_predicted_total",
    cached_tokens="llamacpp:prompt_tokens_cached_total",
    running="llamacpp:requests_processing",
    waiting="llamacpp:requests_deferred",
)


class LlamaCpp:
    """The adapter for ``llama-server``."""

    inflight = AUTO_SLOTS

    def spec(self, request: LaunchRequest) -> LaunchSpec:
        variant = request.variant
        return LaunchSpec(
            variant=variant.id,
            argv=(*request.install.command, *arguments(request.flags, _defaults(request), variant.args)),
            env=child_environment("llama.cpp", request.base_env, _own_environment(request), variant.env),
            endpoint=request.endpoint,
            served_name=_served_name(request),
            log=LlamaCppLog(),
            probe=variant.probe,
            stop=StopRule(grace_s=variant.timing.stop_grace_s),
            timing=variant.timing,
            devices=request.placement.devices,
            metrics=METRICS,
        )


def _defaults(request: LaunchRequest) -> list[Default]:
    variant = request.variant
    return [
        *_weights(variant),
        ("host", LOOPBACK),
        ("port", request.port),
        ("alias", variant.model),
        ("metrics", None),
        ("log-verbosity", _LOG_LEVEL),
        *_context(request),
        *_placement(request),
        *_cache_types(variant),
        *llamacpp_speculation(variant.speculation, request.flags, request.placement.devices),
        *_template(variant),
    ]


def _weights(variant: Variant) -> list[Default]:
    if variant.weights is None:
        return []
    return [("model" if is_local(variant.weights) else "hf-repo", variant.weights)]


def _context(request: LaunchRequest) -> list[Default]:
    """Slots and window. An explicit -np splits the window between the slots unless the pool is unified, so it is."""
    slots = request.variant.parallel or AUTO_SLOTS
    context: list[Default] = [("ctx-size", request.context)] if request.context else []
    unified: list[Default] = [("kv-unified", None)] if slots > 1 else []
    return [*context, ("parallel", slots), *unified]


def _placement(request: LaunchRequest) -> list[Default]:
    """Without a context of ours llama.cpp's own --fit has to find one, and refuses to where -ngl is given."""
    if not request.on_gpu:
        nowhere = find_flag(request.flags, "device")
        return [("device", "none") if nowhere else ("gpu-layers", 0)]
    return [("fit", "off"), ("gpu-layers", "all")] if request.context else []


def _cache_types(variant: Variant) -> list[Default]:
    """``kv_dtype`` is one type or ``K,V``. The draft's cache follows it; left alone it would be f16."""
    if variant.kv_dtype is None:
        return []
    keys, _, values = variant.kv_dtype.partition(",")
    types = (keys.strip(), (values or keys).strip())
    names = [("cache-type-k", "cache-type-v")]
    if not is_off(variant.speculation) and variant.speculation and not variant.speculation.method.startswith("ngram"):
        names.append(("cache-type-k-draft", "cache-type-v-draft"))
    return [(name, kind) for pair in names for name, kind in zip(pair, types, strict=True)]


def _template(variant: Variant) -> list[Default]:
    return [("jinja", None), ("chat-template-file", str(variant.template))] if variant.template else []


def _served_name(request: LaunchRequest) -> str:
    alias = given_value(request.flags, request.variant.args, "alias")
    return str(alias).partition(",")[0] if alias else request.variant.model


def _own_environment(request: LaunchRequest) -> dict[str, str]:
    """A home of its own, so that no config.ini is read unseen; the caches stay where they are."""
    home = request.base_env.get("HOME", "/")
    return {
        "HOME": str(request.folder),
        "XDG_CONFIG_HOME": str(request.folder / "config"),
        "XDG_CACHE_HOME": request.base_env.get("XDG_CACHE_HOME") or f"{home}/.cache",
        "CUDA_CACHE_PATH": request.base_env.get("CUDA_CACHE_PATH") or f"{home}/.nv/ComputeCache",
        "CUDA_VISIBLE_DEVICES": visible_devices(request.placement.devices),
    }
