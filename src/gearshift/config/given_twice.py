"""Which flags say what a neutral field says: beside the field they are given twice."""

from __future__ import annotations

from collections.abc import Mapping

OURS = frozenset({"host", "port", "uds", "api-key", "api-key-file", "alias", "served-model-name"})
"""Set at each start: engines listen on loopback, on a port picked then, under a name the gateway knows."""

WEIGHTS_FLAGS = frozenset({"model", "model-url", "hf-repo", "hf-file", "docker-repo"})

FLAGS_OF_FIELD: Mapping[str, Mapping[str, frozenset[str]]] = {
    "llama.cpp": {
        "weights": WEIGHTS_FLAGS,
        "context": frozenset({"ctx-size"}),
        "gpus": frozenset({"device"}),
        "speculation": frozenset({"spec-type", "spec-draft-n-max", "spec-draft-model", "model-draft", "draft-max"}),
        "kv_dtype": frozenset({"cache-type-k", "cache-type-v"}),
        "parallel": frozenset({"parallel"}),
        "template": frozenset({"chat-template", "chat-template-file"}),
    },
    "vllm": {
        "weights": frozenset({"model"}),
        "context": frozenset({"max-model-len"}),
        "speculation": frozenset({"speculative-config", "spec-method", "spec-model", "spec-tokens"}),
        "kv_dtype": frozenset({"kv-cache-dtype"}),
        "kv_bytes": frozenset({"kv-cache-memory-bytes", "kv-cache-memory"}),
        "parallel": frozenset({"max-num-seqs"}),
        "template": frozenset({"chat-template"}),
        "sleep": frozenset({"enable-sleep-mode"}),
    },
}
