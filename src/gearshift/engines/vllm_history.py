"""What each vLLM release from 0.22 to 0.33 added to the server's flags and took from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from gearshift.domain.engine import Flag

BASE = 32  # the release the packaged table was read from: 0.32
OLDEST, NEWEST = 22, 33


def _switch(name: str) -> Flag:
    return Flag(name, aliases=(f"no-{name}",), negations=(f"no-{name}",), takes_value=False)


ADDED: Mapping[int, tuple[Flag, ...]] = {
    24: (Flag("device-ids"), Flag("diffusion-config"), Flag("watermark"), Flag("prefill-schedule-interval")),
    25: (Flag("mm-ipc-gpu-memory-gb"), Flag("model-class-overrides"), Flag("jit-monitor-mode")),
    26: (
        Flag("max-num-scheduled-tokens"),
        Flag("prefix-match-unit"),
        _switch("enable-moe-shared-loras"),
        _switch("enable-bf16x3-router-gemm"),
    ),
    27: (
        _switch("use-replayssm"),
        Flag("replayssm-buffer-len"),
        Flag("mamba-ssu-algorithm"),
        Flag("kda-prefill-backend"),
        _switch("enable-fault-tolerance"),
        Flag("mm-hasher-algorithm"),
    ),
    28: (
        Flag("ec-manager-config"),
        Flag("mm-processor-device"),
        _switch("mm-device-do-normalize"),
        _switch("return-sampling-mask"),
    ),
    29: (
        Flag("max-num-queued-reqs"),
        Flag("max-num-queued-tokens"),
        Flag("per-request-spec-decode-metrics"),
        Flag("prefix-cache-retention-interval"),
        _switch("dcp-q-replicate"),
    ),
    30: (
        _switch("enable-mamba-fine-grained-prefix-cache"),
        Flag("watermark-config"),
        Flag("elastic-ep-max-dp-size"),
        Flag("kda-decode-backend"),
        Flag("engram-config"),
    ),
    31: (
        _switch("enable-mamba-shared-prefix-checkpoint"),
        Flag("log-level"),
        Flag("log-config-file"),
        Flag("max-num-active-seqs"),
        Flag("sleep-preserve-parameter-names", repeatable=True),
        _switch("swa-bounded-replay"),
    ),
    32: (
        Flag("custom-histogram-buckets"),
        _switch("sleep-mode-offload-cudagraph"),
        _switch("enable-shm-tensor-arena"),
        _switch("enable-hc-sp"),
    ),
    33: (_switch("monokernel"), Flag("sleep-mode-backend"), Flag("watchdog-config")),
}

REMOVED: Mapping[int, tuple[Flag, ...]] = {
    27: (Flag("max-num-partial-prefills"), Flag("max-long-partial-prefills")),
    28: (_switch("calculate-kv-scales"), Flag("override-attention-dtype")),
    30: (_switch("enable-bf16x3-router-gemm"),),
    31: (_switch("enable-mamba-fine-grained-prefix-cache"),),
}

_KV_DTYPES_ADDED: Mapping[int, tuple[str, ...]] = {
    27: ("int4_per_token_head",),
    29: ("nvfp4_4over6",),
    32: ("nvfp4_ds_mla", "ultraquant_4bit"),
}
_METHODS_ADDED: Mapping[int, tuple[str, ...]] = {25: ("dspark",)}
_METHODS_REMOVED: Mapping[int, tuple[str, ...]] = {33: ("medusa", "mlp_speculator")}
METHODS = (
    *("mtp", "ngram", "ngram_gpu", "draft_model", "suffix", "custom_class", "eagle", "eagle3"),
    *("medusa", "mlp_speculator", "extract_hidden_states", "dflash", "dspark"),
)
SPECULATION_KEYS: Mapping[int, tuple[str, ...]] = {
    22: (
        *("method", "model", "num_speculative_tokens", "draft_tensor_parallel_size", "quantization", "max_model_len"),
        *("revision", "code_revision", "enforce_eager", "attention_backend", "moe_backend", "draft_load_config"),
        *("disable_padded_drafter_batch", "parallel_drafting", "use_local_argmax_reduction", "prompt_lookup_min"),
        *("prompt_lookup_max", "draft_sample_method", "rejection_sample_method", "synthetic_acceptance_rates"),
        *("synthetic_acceptance_length", "suffix_decoding_max_tree_depth", "suffix_decoding_max_cached_requests"),
        *("suffix_decoding_max_spec_factor", "suffix_decoding_min_token_prob"),
    ),
    24: ("num_speculative_tokens_per_batch_size",),
    25: ("use_heterogeneous_vocab",),
    26: ("kv_cache_dtype",),
    28: ("dspark_draft_topk", "enable_adaptive_verification"),
    29: ("index_share_for_mtp_iteration",),
    30: ("disable_eagle_block_drop",),
    33: ("disable_lookahead_block_hashes", "draft_lm_head_quantization", "xpress_topc"),
}


def minor_of(version: str | None) -> int:
    """The minor number of ``0.N.P``, held to the range the history covers; the newest for anything else."""
    parts = (version or "").lstrip("v").split(".")
    if len(parts) > 1 and parts[0] == "0" and parts[1].isdigit():
        return min(max(int(parts[1]), OLDEST), NEWEST)
    return NEWEST


def flags_of(version: str, base: Iterable[Flag]) -> tuple[Flag, ...]:
    """The flags of ``version``, derived from those of 0.32 by undoing or applying what the releases between did."""
    minor = minor_of(version)
    later = {flag.name for release, flags in ADDED.items() if minor < release <= BASE for flag in flags}
    flags = [_as_of(flag, minor) for flag in base if flag.name not in later]
    for release, removed in REMOVED.items():
        if minor < release:
            flags += [flag for flag in removed if _added_in(flag.name) <= minor]
    if minor > BASE:
        flags += ADDED[NEWEST]
    return tuple(flags)


def methods_of(minor: int) -> tuple[str, ...]:
    """The speculation methods that 0.``minor`` accepts under their current names."""
    gone = {name for release, names in _METHODS_REMOVED.items() if minor >= release for name in names}
    gone |= {name for release, names in _METHODS_ADDED.items() if minor < release for name in names}
    return tuple(method for method in METHODS if method not in gone)


def speculation_keys_of(minor: int) -> frozenset[str]:
    """The keys of ``--speculative-config`` that 0.``minor`` accepts; it rejects all others."""
    return frozenset(key for release, keys in SPECULATION_KEYS.items() if release <= minor for key in keys)


def _added_in(name: str) -> int:
    releases = (release for release, flags in ADDED.items() if any(flag.name == name for flag in flags))
    return next(releases, OLDEST)


def _as_of(flag: Flag, minor: int) -> Flag:
    match flag.name:
        case "kv-cache-dtype":
            later = {name for release, names in _KV_DTYPES_ADDED.items() if minor < release for name in names}
            return replace(flag, choices=tuple(choice for choice in flag.choices if choice not in later))
        case "mamba-cache-mode" if minor < BASE:  # the value `all` was removed in 0.32
            return replace(flag, choices=("all", *flag.choices))
        case "gpu-memory-utilization" if minor < 31:  # noqa: PLR2004 - the alias device-memory-utilization came in 0.31
            return replace(flag, aliases=())
        case _:
            return flag
