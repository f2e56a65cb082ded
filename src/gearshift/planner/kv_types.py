"""Bytes of cache types: plain ones per element, packed ones per head and token."""

from __future__ import annotations

from fractions import Fraction

# llama.cpp -ctk/-ctv: bytes per element as bytes per block over elements per block (ggml block layouts).
_GGML_CACHE = {
    "f32": Fraction(4), "f16": Fraction(2), "bf16": Fraction(2), "q8_0": Fraction(34, 32), "q5_1": Fraction(24, 32),
    "q5_0": Fraction(22, 32), "q4_1": Fraction(20, 32), "q4_0": Fraction(18, 32), "iq4_nl": Fraction(18, 32),
}  # fmt: skip

_DTYPES = {
    "float32": 4, "float": 4, "fp32": 4, "float16": 2, "half": 2, "fp16": 2, "bfloat16": 2, "bf16": 2,
    "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "fp8_inc": 1, "int8": 1,
}  # fmt: skip


_VLLM_PACKED = {  # vLLM's cache types beside the plain ones, and the version that brought them
    "fp8_ds_mla": (0, 22), "turboquant_k8v4": (0, 22), "turboquant_4bit_nc": (0, 22), "turboquant_k3v4_nc": (0, 22),
    "turboquant_3bit_nc": (0, 22), "int8_per_token_head": (0, 22), "fp8_per_token_head": (0, 22), "nvfp4": (0, 22),
    "int4_per_token_head": (0, 27), "nvfp4_4over6": (0, 29), "nvfp4_ds_mla": (0, 32), "ultraquant_4bit": (0, 32),
}  # fmt: skip
_OCTAVE = (0, 33)  # a family of types
_FP8 = 8
_TURBOQUANT_BITS = {  # of keys and of values
    "turboquant_k8v4": (_FP8, 4), "turboquant_4bit_nc": (4, 4), "turboquant_k3v4_nc": (3, 4),
    "turboquant_3bit_nc": (3, 3),
}  # fmt: skip


def vllm_cache_type_since(name: str) -> tuple[int, int]:
    """The version that brought a cache type of vLLM's. Raises ValueError for one that it never had."""
    if name == "auto" or name in _DTYPES:
        return (0, 22)
    if name.startswith("octave_"):
        return _OCTAVE
    since = _VLLM_PACKED.get(name)
    if since is None:
        msg = f"{name!r} is no vLLM cache type; it has auto, bfloat16, float16, fp8, {', '.join(_VLLM_PACKED)}"
        raise ValueError(msg)
    return since


def ggml_cache_bytes(name: str) -> Fraction:
    """Bytes per element of a llama.cpp cache type. Raises ValueError for a type it does not have."""
    size = _GGML_CACHE.get(name)
    if size is None:
        msg = f"{name!r} is no llama.cpp cache type; it has {', '.join(_GGML_CACHE)}"
        raise ValueError(msg)
    return size


def dtype_bytes(name: str) -> int | None:
    """Bytes per element of a plain type name, None for packed or unknown ones."""
    return _DTYPES.get(name)


def packed_bytes(name: str, heads: int, key_dim: int, value_dim: int) -> int | None:
    """Bytes per token and layer of vLLM's packed cache types; None where no formula is known.

    Scales lie beside the values: nvfp4 one byte per 16, the per-head types four bytes per head and side, ultraquant
    one byte per 32. The turboquant types keep two bytes beside the keys of a head (8-bit keys none) and four beside
    its values, and round the whole to an even number (vLLM 0.32, the backends' customize_spec).
    """
    both = key_dim + value_dim
    if name in _TURBOQUANT_BITS:
        key_bits, value_bits = _TURBOQUANT_BITS[name]
        slot = -(-key_dim * key_bits // 8) + (2 if key_bits < _FP8 else 0) + -(-value_dim * value_bits // 8) + 4
        return heads * (slot + slot % 2)
    return {
        "nvfp4": heads * (both // 2 + both // 16),
        "nvfp4_4over6": heads * (both // 2 + both // 16),
        "int8_per_token_head": heads * (both + 8),
        "fp8_per_token_head": heads * (both + 8),
        "int4_per_token_head": heads * (both // 2 + 8),
        "ultraquant_4bit": heads * (both // 2 + both // 32),
    }.get(name)


def keeps_outer_layers(name: str) -> bool:
    """Whether the first and the last two layers of a model without recurrent ones stay in the model's own type."""
    return name in _TURBOQUANT_BITS or name == "ultraquant_4bit"
