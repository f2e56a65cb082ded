"""vLLM: a variant as an OpenAI API server start."""

from __future__ import annotations

import json
import math

from gearshift.domain.launch import HttpCall, LaunchSpec, MetricNames, SleepRule, StopRule
from gearshift.domain.units import GIB
from gearshift.engines.adapter import LOOPBACK, LaunchRequest, is_local
from gearshift.engines.arguments import Default, arguments, given_value
from gearshift.engines.environment import child_environment, visible_devices
from gearshift.engines.speculation import vllm_speculation
from gearshift.engines.vllm_log import VllmLog

AUTO_SEQUENCES = 256  # --max-num-seqs of cards below 70 GiB; 1024 above, 128 on a CPU
CPU_KV_BYTES = GIB  # without a size vLLM would take 92 % of the host's memory for the pool
_SLEEP_S = 300.0  # level 1 copies the weights to RAM: 24.6 s for 46.7 GiB were measured
METRICS = MetricNames(
    drafts="vllm:spec_decode_num_drafts_total",
    draft_tokens="vllm:spec_decode_num_draft_tokens_total",
    accepted_tokens="vllm:spec_decode_num_accepted_tokens_total",
    accepted_per_position="vllm:spec_decode_num_accepted_tokens_per_pos_total",
    prompt_tokens="vllm:prompt_tokens_total",
    generation_tokens="vllm:generation_tokens_total",
    cached_tokens="vllm:prompt_tokens_cached_total",
    kv_usage="vllm:kv_cache_usage_perc",
    running="vllm:num_requests_running",
    waiting="vllm:num_requests_waiting",
    preemptions="vllm:num_preemptions_total",
)


class Vllm:
    """The adapter for ``vllm serve`` and, where that command is broken, the api_server module."""

    inflight = AUTO_SEQUENCES

    def spec(self, request: LaunchRequest) -> LaunchSpec:
        variant = request.variant
        return LaunchSpec(
            variant=variant.id,
            argv=(
                *request.install.command,
                *_positional(request),
                *arguments(request.flags, _defaults(request), variant.args),
            ),
            env=child_environment("vllm", request.base_env, _own_environment(request), variant.env),
            endpoint=request.endpoint,
            served_name=_served_name(request),
            log=VllmLog(),
            probe=variant.probe,
            stop=StopRule(grace_s=variant.timing.stop_grace_s),
            timing=variant.timing,
            devices=request.placement.devices,
            metrics=METRICS,
            sleep=_sleep_rule(request),
        )


def _takes_positional(request: LaunchRequest) -> bool:
    return request.install.command[-1:] == ("serve",)


def _positional(request: LaunchRequest) -> tuple[str, ...]:
    weights = request.variant.weights
    return (weights,) if weights and _takes_positional(request) else ()


def _defaults(request: LaunchRequest) -> list[Default]:
    variant = request.variant
    optional: list[tuple[str, str | int | None]] = [
        ("model", None if _takes_positional(request) else variant.weights),
        ("host", LOOPBACK),
        ("port", request.port),
        ("served-model-name", variant.model),
        ("max-model-len", request.context),
        ("kv-cache-dtype", variant.kv_dtype),
        ("kv-cache-memory-bytes", _kv_bytes(request)),
        ("tensor-parallel-size", _tensor_parallel(request)),
        ("max-num-seqs", variant.parallel),
        ("speculative-config", vllm_speculation(variant.speculation)),
        ("chat-template", str(variant.template) if variant.template else None),
    ]
    sleeping: list[Default] = [("enable-sleep-mode", None)] if _can_sleep(request) else []
    return [*((name, value) for name, value in optional if value is not None), *sleeping]


def _kv_bytes(request: LaunchRequest) -> int | None:
    """The pool per device: the planner's, the variant's own figure, or on a CPU a bound, for lack of a sane default."""
    chosen = request.placement.kv_bytes
    if chosen is None and isinstance(request.variant.kv_bytes, int):
        chosen = request.variant.kv_bytes
    bounded = not request.on_gpu and "VLLM_CPU_KVCACHE_SPACE" not in {**request.base_env, **request.variant.env}
    return CPU_KV_BYTES if chosen is None and bounded else chosen


def _tensor_parallel(request: LaunchRequest) -> int | None:
    """One rank a GPU, unless the user spreads the model over pipeline or data parallel ranks."""
    spread = ("pipeline-parallel-size", "data-parallel-size")
    if any(given_value(request.flags, request.variant.args, name) is not None for name in spread):
        return None
    return len(request.gpus) if len(request.gpus) > 1 else None


def _served_name(request: LaunchRequest) -> str:
    given = given_value(request.flags, request.variant.args, "served-model-name")
    first = given[0] if isinstance(given, tuple) else given
    return str(first) if first is not None else request.variant.model


def _can_sleep(request: LaunchRequest) -> bool:
    return request.variant.sleep is not None and request.on_gpu  # the CPU backend refuses the flag


def _own_environment(request: LaunchRequest) -> dict[str, str]:
    """Our load deadline is the only one; nothing is reported home; local weights never ask the hub."""
    env = {
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_ENGINE_READY_TIMEOUT_S": str(math.ceil(request.variant.timing.load_timeout_s)),
        "CUDA_VISIBLE_DEVICES": visible_devices(request.placement.devices),
    }
    speculation = request.variant.speculation
    if is_local(request.variant.weights) and (
        speculation is None or not speculation.draft or is_local(speculation.draft)
    ):
        env["HF_HUB_OFFLINE"] = "1"
    if not request.on_gpu:  # binding to cores fails on a container's odd cpusets, and two engines would share one core
        env["VLLM_CPU_OMP_THREADS_BIND"] = request.base_env.get("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    if _can_sleep(request):
        env["VLLM_SERVER_DEV_MODE"] = "1"
    return env


def _sleep_rule(request: LaunchRequest) -> SleepRule | None:
    """Level 2 drops the weights, so they are read again between the two halves of the wake."""
    sleep = request.variant.sleep
    if sleep is None or not _can_sleep(request):
        return None
    wake_s = sleep.wake_timeout_s
    reload_weights = json.dumps({"method": "reload_weights"}).encode()
    wake = {
        1: (HttpCall("POST", "/wake_up", timeout_s=wake_s),),
        2: (
            HttpCall("POST", "/wake_up?tags=weights", timeout_s=wake_s),
            HttpCall("POST", "/collective_rpc", body=reload_weights, timeout_s=wake_s),
            HttpCall("POST", "/wake_up?tags=kv_cache", timeout_s=wake_s),
        ),
    }
    return SleepRule(
        sleep=(HttpCall("POST", f"/sleep?level={sleep.level}", timeout_s=_SLEEP_S),),
        wake=wake[sleep.level],
        is_sleeping=HttpCall("GET", "/is_sleeping", timeout_s=10.0, refusal=b'"is_sleeping":false'),
        wake_timeout_s=wake_s,
    )
