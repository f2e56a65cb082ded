"""What `config.json` of the common families says about layers, heads and state; ``text_config`` wins.

Keys and derivations: the model classes of transformers and vLLM 0.22-0.33 (docs/planner.md lists them).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gearshift.artifacts.damage import fail
from gearshift.artifacts.facts import Experts, Layer, LayerKind, Recurrent

_KINDS: dict[str, LayerKind] = {
    "full_attention": "full",
    "attention": "full",
    "sliding_attention": "sliding",
    "chunked_attention": "sliding",
    "linear_attention": "recurrent",
    "mamba": "recurrent",
    "mlp": "none",
    "moe": "none",
}
_PATTERN_LETTERS: dict[str, LayerKind] = {"M": "recurrent", "*": "full", "-": "none", "E": "none"}
_BOTH_CACHES = "FalconH1"  # attention and Mamba side by side in every layer
_MOST_LAYERS = 4096
_GEMMA3_PERIOD = 6


@dataclass(frozen=True, slots=True)
class HfConfig:
    """A parsed `config.json`; ``name`` is the file, for errors."""

    document: Mapping[str, Any]
    name: str

    def find(self, *keys: str) -> Any:
        """The first of ``keys`` that is set, in the text part first, then at the top level."""
        text = self.document.get("text_config")
        for level in (text if isinstance(text, Mapping) else {}, self.document):
            for key in keys:
                if level.get(key) is not None:
                    return level[key]
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


def layers_of(config: HfConfig) -> tuple[Layer, ...]:
    """Every decoder layer in order, the draft head left out; one that keeps two caches counts as two."""
    full, sliding = _full_layer(config), _sliding_layer(config)
    shapes: dict[LayerKind, Layer] = {"full": full, "sliding": sliding, "recurrent": Layer("recurrent")}
    if config.family.startswith(_BOTH_CACHES):
        return (full, Layer("recurrent")) * len(_kinds(config))
    return tuple(shapes.get(kind, Layer("none")) for kind in _kinds(config))


def draft_layers_of(config: HfConfig) -> tuple[Layer, ...]:
    """The built-in multi-token-prediction layers: full attention of the target's shape."""
    count = config.number("mtp_num_hidden_layers", "num_nextn_predict_layers")
    return (_full_layer(config),) * max(0, min(count, _MOST_LAYERS))


def recurrent_of(config: HfConfig) -> Recurrent | None:
    """State of one recurrent layer: Gated DeltaNet, or Mamba-2 (Nemotron-H, Granite, Falcon-H1, Bamba)."""
    if config.number("linear_num_value_heads"):
        keys = config.needed("linear_num_key_heads") * config.needed("linear_key_head_dim")
        values = config.needed("linear_num_value_heads") * config.needed("linear_value_head_dim")
        state, conv = values * config.needed("linear_key_head_dim"), config.number("linear_conv_kernel_dim", default=4)
        heads = (config.needed("linear_num_key_heads"), config.needed("linear_num_value_heads"))
        return Recurrent(conv, 2 * keys + values, state, config.find("mamba_ssm_dtype"), heads=heads)
    count = config.number("mamba_num_heads", "mamba_n_heads")
    if not count:
        return None
    inner = count * config.needed("mamba_head_dim", "mamba_d_head")
    state = config.needed("ssm_state_size", "mamba_d_state")
    width = inner + 2 * config.number("n_groups", "mamba_n_groups", default=1) * state
    dtype = str(config.find("mamba_ssm_cache_dtype", "mamba_ssm_dtype") or "float32")
    kernel = config.number("conv_kernel", "mamba_d_conv", default=4)
    return Recurrent(kernel, width, inner * state, dtype, "mamba", heads=(count,))


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
    return Layer("full", config.number("num_global_key_value_heads", "num_key_value_heads", default=heads), dim, dim)


def _sliding_layer(config: HfConfig) -> Layer:
    heads = config.needed("num_attention_heads")
    dim = config.number("head_dim") or config.needed("hidden_size") // heads
    return Layer("sliding", config.number("num_key_value_heads", default=heads), dim, dim)


def _kinds(config: HfConfig) -> tuple[LayerKind, ...]:
    count = config.needed("num_hidden_layers")
    if count > _MOST_LAYERS:
        fail(config.name, f"num_hidden_layers is {count}")
    named = config.find("layer_types", "layers_block_type")
    if isinstance(named, list) and len(named) >= count:
        return tuple(_windowed(config, _KINDS.get(str(kind), "full")) for kind in named[:count])
    pattern = config.find("hybrid_override_pattern")
    if isinstance(pattern, str) and len(pattern) >= count:
        return tuple(_PATTERN_LETTERS.get(letter, "full") for letter in pattern[:count])
    return tuple(_derived(config, index) for index in range(count))


def _windowed(config: HfConfig, kind: LayerKind) -> LayerKind:
    return "full" if kind == "sliding" and config.window is None else kind


def _derived(config: HfConfig, index: int) -> LayerKind:
    """A layer's kind where the config names none: every k-th is full, the rest recurrent or sliding."""
    interval = config.number("full_attention_interval")
    if interval and recurrent_of(config):
        return "full" if (index + 1) % interval == 0 else "recurrent"
    if config.window is None:
        return "full"
    period = config.number("sliding_window_pattern", "_sliding_window_pattern")
    if not period and config.family.startswith("Gemma3"):
        period = _GEMMA3_PERIOD
    return "full" if period and (index + 1) % period == 0 else "sliding"
