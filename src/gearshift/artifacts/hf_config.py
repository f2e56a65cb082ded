"""What `config.json` of the common families says about layers, heads and state; ``text_config`` wins.

Keys and derivations: the model classes of transformers and vLLM 0.22-0.33 (docs/planner.md lists them).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gearshift.artifacts.damage import fail
from gearshift.artifacts.facts import Experts, Layer, LayerKind, Rope
from gearshift.artifacts.hf_kinds import layer_kinds

_LENGTHS = (
    "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_target_positions",
    "max_sequence_length", "max_seq_length", "seq_len",
)  # fmt: skip
_UNSCALED = frozenset({"default", "mrope", "proportional"})
_BOTH_CACHES = "FalconH1"  # attention and Mamba side by side in every layer
_MOST_LAYERS = 4096
_ALIASES = {  # names that older families have for the same
    "hidden_size": ("n_embd", "d_model"),
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers"),
    "num_attention_heads": ("n_head", "n_heads"),
    "num_key_value_heads": ("num_kv_heads", "n_head_kv", "multi_query_group_num"),
    "head_dim": ("kv_channels",),
    "max_position_embeddings": ("n_positions", "max_seq_len", "seq_length", "n_ctx"),
    "vocab_size": ("padded_vocab_size",),
}


@dataclass(frozen=True, slots=True)
class HfConfig:
    """A parsed `config.json`; ``name`` is the file, for errors."""

    document: Mapping[str, Any]
    name: str

    def find(self, *keys: str) -> Any:
        """The first of ``keys`` that is set, in the text part first, then at the top level."""
        text = self.document.get("text_config")
        for level in (text if isinstance(text, Mapping) else {}, self.document):
            for name in (name for key in keys for name in (key, *_ALIASES.get(key, ()))):
                if level.get(name) is not None:
                    return level[name]
        return None

    def number(self, *keys: str, default: int = 0) -> int:
        """A whole number; anything else a config may hold there (text, a list, NaN) counts as absent."""
        value = self.find(*keys)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return default
        return int(value)

    def needed(self, *keys: str) -> int:
        """A positive number that planning cannot do without. Raises GearshiftError."""
        value = self.number(*keys)
        if value <= 0:
            fail(self.name, f"{keys[0]} is missing", hint="is this a decoder model's config.json?")
        return value

    @property
    def family(self) -> str:
        named = self.find("architectures")
        if isinstance(named, list) and named and isinstance(named[0], str):
            return named[0]
        return str(self.find("model_type") or "unknown")

    @property
    def dtype(self) -> str:
        """Of the weights as trained; new configs call it dtype, old ones torch_dtype."""
        return str(self.find("dtype", "torch_dtype") or "float32").removeprefix("torch.")

    @property
    def window(self) -> int | None:
        """Length of the sliding window; None where the model has one but does not use it."""
        return None if self.find("use_sliding_window") is False else self.number("sliding_window") or None


def context_of(config: HfConfig) -> int | None:
    """Tokens that the config states, by vLLM's rule: Cohere's own key, else the smallest of all that mean it."""
    named = (config.number(key) for key in _LENGTHS)
    return config.number("model_max_length") or min((length for length in named if length > 0), default=None)


def rope_of(config: HfConfig) -> Rope | None:
    """How positions are scaled; where layer kinds have their own, the one that is scaled. None = they are not."""
    found = config.find("rope_parameters", "rope_scaling")
    parts = found if isinstance(found, Mapping) else {}
    nested = [part for part in parts.values() if isinstance(part, Mapping)]
    for part in nested or [parts]:
        kind, factor = str(part.get("rope_type") or part.get("type") or "default"), part.get("factor")
        if kind not in _UNSCALED:
            original = part.get("original_max_position_embeddings") or config.number("original_max_position_embeddings")
            known = isinstance(factor, int | float) and not isinstance(factor, bool) and math.isfinite(factor)
            return Rope(kind, factor if known else None, original if isinstance(original, int) and original else None)
    return None


def layers_of(config: HfConfig) -> tuple[Layer, ...]:
    """Every decoder layer in order, the draft head left out; one that keeps two caches counts as two."""
    full, sliding = _full_layer(config), _sliding_layer(config)
    shapes: dict[LayerKind, Layer] = {"full": full, "sliding": sliding, "recurrent": Layer("recurrent")}
    count = config.needed("num_hidden_layers")
    if count > _MOST_LAYERS:
        fail(config.name, f"num_hidden_layers is {count}")
    kinds = layer_kinds(config, count)
    if config.family.startswith(_BOTH_CACHES):
        return (full, Layer("recurrent")) * count
    own = count - min(max(config.number("num_kv_shared_layers"), 0), count)  # the last ones read an earlier one's cache
    return tuple(shapes.get(kind, Layer("none")) if index < own else Layer("none") for index, kind in enumerate(kinds))


def draft_layers_of(config: HfConfig) -> tuple[Layer, ...]:
    """The built-in multi-token-prediction layers: full attention of the target's shape."""
    default = 1 if config.family.startswith("Qwen3Next") else 0  # which has one and does not say so
    count = config.number("mtp_num_hidden_layers", "num_nextn_predict_layers", default=default)
    return (_full_layer(config),) * max(0, min(count, _MOST_LAYERS))


def experts_of(config: HfConfig) -> Experts | None:
    """Mixture-of-experts numbers, or None for a dense model; expert bytes come from the tensors."""
    count = config.number("num_experts", "num_local_experts", "n_routed_experts")
    if not count:
        return None
    return Experts(
        count=count,
        used=config.number("num_experts_per_tok", "experts_per_token", "top_k_experts"),
        shared=config.number("n_shared_experts") or int(config.number("shared_expert_intermediate_size") > 0),
        ffn=config.number("moe_intermediate_size") or None,
    )


def _full_layer(config: HfConfig) -> Layer:
    if config.number("kv_lora_rank"):
        return Layer("latent", 1, config.number("kv_lora_rank") + config.number("qk_rope_head_dim"), 0)
    heads = config.needed("num_attention_heads")
    dim = config.number("global_head_dim", "head_dim") or config.needed("hidden_size") // heads
    if config.find("multi_query") is True and config.find("new_decoder_architecture") is not True:  # Falcon
        return Layer("full", 1, dim, dim)
    return Layer("full", config.number("num_global_key_value_heads", "num_key_value_heads", default=heads), dim, dim)


def _sliding_layer(config: HfConfig) -> Layer:
    heads = config.needed("num_attention_heads")
    dim = config.number("head_dim") or config.needed("hidden_size") // heads
    return Layer("sliding", config.number("num_key_value_heads", default=heads), dim, dim)
