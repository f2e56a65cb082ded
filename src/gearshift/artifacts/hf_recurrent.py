"""The state that one recurrent layer of a Hugging Face model keeps for a sequence, by family.

Only Gated DeltaNet's is confirmed by logs; the others follow the shapes of vLLM's model classes.
"""

from __future__ import annotations

from gearshift.artifacts.facts import Recurrent
from gearshift.artifacts.hf_config import HfConfig


def recurrent_of(config: HfConfig) -> Recurrent | None:
    """The state's shape, or None for a model without such layers."""
    shapes = (_gated_delta, _mamba2, _mamba1, _short_convolution, _kimi_delta, _lightning)
    return next((shape for read in shapes if (shape := read(config)) is not None), None)


def _gated_delta(config: HfConfig) -> Recurrent | None:
    if not config.number("linear_num_value_heads"):
        return None
    heads = (config.needed("linear_num_key_heads"), config.needed("linear_num_value_heads"))
    keys, values = heads[0] * config.needed("linear_key_head_dim"), heads[1] * config.needed("linear_value_head_dim")
    state, conv = values * config.needed("linear_key_head_dim"), config.number("linear_conv_kernel_dim", default=4)
    return Recurrent(conv, 2 * keys + values, state, config.find("mamba_ssm_dtype"), heads=heads)


def _mamba2(config: HfConfig) -> Recurrent | None:
    """Nemotron-H, Granite, Falcon-H1, Bamba."""
    count = config.number("mamba_num_heads", "mamba_n_heads")
    if not count:
        return None
    inner = count * config.needed("mamba_head_dim", "mamba_d_head")
    state = config.needed("ssm_state_size", "mamba_d_state")
    width = inner + 2 * config.number("n_groups", "mamba_n_groups", default=1) * state
    dtype = str(config.find("mamba_ssm_cache_dtype", "mamba_ssm_dtype") or "float32")
    kernel = config.number("conv_kernel", "mamba_d_conv", default=4)
    return Recurrent(kernel, width, inner * state, dtype, "mamba", heads=(count,))


def _mamba1(config: HfConfig) -> Recurrent | None:
    """Jamba: the state is kept in the convolution's type."""
    state = config.number("mamba_d_state")
    if not state or not config.number("attn_layer_period"):
        return None
    inner = config.number("mamba_expand", default=2) * config.needed("hidden_size")
    return Recurrent(config.number("mamba_d_conv", default=4), inner, inner * state, None, "mamba")


def _short_convolution(config: HfConfig) -> Recurrent | None:
    """LFM2 keeps the last positions and nothing else."""
    kernel = config.number("conv_L_cache")
    return (
        Recurrent(kernel, config.number("conv_dim") or config.needed("hidden_size"), 0, None, "mamba")
        if kernel
        else None
    )


def _kimi_delta(config: HfConfig) -> Recurrent | None:
    """Three convolutions, of queries, keys and values."""
    linear = config.find("linear_attn_config")
    heads, dim = (linear.get(key) for key in ("num_heads", "head_dim")) if isinstance(linear, dict) else (None, None)
    if not isinstance(heads, int) or not isinstance(dim, int):
        return None
    kernel = linear.get("short_conv_kernel_size")
    return Recurrent(
        kernel if isinstance(kernel, int) else 4, 3 * heads * dim, heads * dim * dim, "float32", "mamba", heads=(heads,)
    )


def _lightning(config: HfConfig) -> Recurrent | None:
    """MiniMax: one matrix a head, no convolution."""
    if not isinstance(config.find("attn_type_list"), list):
        return None
    heads = config.needed("num_attention_heads")
    dim = config.number("head_dim") or config.needed("hidden_size") // heads
    return Recurrent(1, 0, heads * dim * dim, None, "mamba", heads=(heads,))
