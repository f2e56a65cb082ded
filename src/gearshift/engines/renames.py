"""Flags and variables that are gone, with what to write instead."""

from __future__ import annotations

from collections.abc import Mapping

from gearshift.domain.variant import EngineKind

_DRAFT_MAX = "write args spec-draft-n-max, or speculation: {method: ..., tokens: N}"
_LLAMACPP = {
    "no-mmap": "write args load-mode: none",
    "mmap": "write args load-mode: mmap",
    "mlock": "write args load-mode: mlock",
    "direct-io": "write args load-mode: dio",
    "draft": _DRAFT_MAX,
    "draft-n": _DRAFT_MAX,
    "draft-max": _DRAFT_MAX,
    "draft-min": "write args spec-draft-n-min",
    "draft-n-min": "write args spec-draft-n-min",
    "spec-ngram-size-n": "write args spec-ngram-simple-size-n (or the one of your ngram type)",
    "spec-ngram-size-m": "write args spec-ngram-simple-size-m (or the one of your ngram type)",
    "spec-ngram-min-hits": "write args spec-ngram-simple-min-hits (or the one of your ngram type)",
    "spec-draft-conf-min": "it is in the documentation only; write args spec-draft-p-min",
}
_VLLM = {
    "swap-space": "remove it; a request that does not fit is computed again",
    "disable-log-requests": "remove it: requests are not logged unless args enable-log-requests is set",
    "num-lookahead-slots": "remove it",
    "guided-decoding-backend": "write args structured-outputs-config",
    "enable-reasoning": "remove it; args reasoning-parser is enough",
    "cuda-graph-sizes": "write args cudagraph-capture-sizes",
    "task": "write args runner and convert",
    "rope-scaling": "write args hf-overrides",
    "rope-theta": "write args hf-overrides",
    "use-v2-block-manager": "remove it; it is the only one",
    "speculative-model": "write speculation: {method: draft, draft: PATH, tokens: N}",
    "num-speculative-tokens": "write speculation: {method: ..., tokens: N}",
    "max-num-partial-prefills": "removed in 0.27; remove it",
    "max-long-partial-prefills": "removed in 0.27; remove it",
    "calculate-kv-scales": "removed in 0.28; use a checkpoint with calibrated scales",
    "override-attention-dtype": "removed in 0.28; remove it",
    "enable-bf16x3-router-gemm": "removed in 0.30; remove it",
    "enable-mamba-fine-grained-prefix-cache": "renamed in 0.31: write args enable-mamba-shared-prefix-checkpoint",
}
GONE_FLAGS: Mapping[EngineKind, Mapping[str, str]] = {"llama.cpp": _LLAMACPP, "vllm": _VLLM, "command": {}}
GONE_VARIABLES = {
    "VLLM_USE_V1": "remove it: there is no other engine any more",
    "VLLM_ATTENTION_BACKEND": "write args attention-backend",
}

OWNED_FLAGS: Mapping[EngineKind, Mapping[str, str]] = {
    "llama.cpp": {
        "host": "engines listen on loopback only",
        "port": "Gearshift picks a free port at each start",
        "model": "write weights",
        "hf-repo": "write weights: user/model:quant",
        "models-dir": "the router mode of llama-server would swap by itself; write variants",
        "models-preset": "the router mode of llama-server would swap by itself; import the file into variants",
        "api-key": "clients' keys belong to the top-level api_keys; the engine is reachable from this box only",
        "api-key-file": "clients' keys belong to the top-level api_keys; the engine is reachable from this box only",
        "api-prefix": "the engine's paths have to be where Gearshift looks for them",
        "ssl-key-file": "the engine listens on loopback; put TLS in front of Gearshift",
        "log-file": "the log has to reach Gearshift; see gearshift logs",
        "log-disable": "load progress and root causes are read from the log",
        "reuse-port": "a port that two servers share cannot be verified",
    },
    "vllm": {
        "host": "engines listen on loopback only",
        "port": "Gearshift picks a free port at each start",
        "model": "write weights",
        "uds": "the engine has to listen on the port Gearshift picked",
        "api-key": "clients' keys belong to the top-level api_keys; the engine is reachable from this box only",
        "root-path": "the engine's paths have to be where Gearshift looks for them",
        "ssl-keyfile": "the engine listens on loopback; put TLS in front of Gearshift",
        "headless": "a variant has to answer requests",
        "grpc": "Gearshift speaks HTTP to engines",
        "config": "write the options as args, so that they can be checked",
    },
    "command": {},
}

NEUTRAL_FIELDS: Mapping[EngineKind, Mapping[str, str]] = {
    "llama.cpp": {
        "ctx-size": "context",
        "cache-type-k": "kv_dtype",
        "cache-type-v": "kv_dtype",
        "parallel": "parallel",
        "spec-type": "speculation",
        "spec-draft-model": "speculation",
        "chat-template-file": "template",
        "chat-template": "template",
    },
    "vllm": {
        "max-model-len": "context",
        "kv-cache-dtype": "kv_dtype",
        "kv-cache-memory-bytes": "kv_bytes",
        "max-num-seqs": "parallel",
        "tensor-parallel-size": "gpus",
        "speculative-config": "speculation",
        "spec-method": "speculation",
        "chat-template": "template",
        "enable-sleep-mode": "sleep",
    },
    "command": {},
}
