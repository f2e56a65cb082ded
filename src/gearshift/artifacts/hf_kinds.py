"""Which layer of a Hugging Face model attends to all, to a window, or keeps a state: as named, else as derived.

Derivations: the configuration classes of transformers, and the model classes of vLLM 0.22-0.33.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from gearshift.artifacts.facts import LayerKind

_KINDS: dict[str, LayerKind] = {
    "full_attention": "full",
    "attention": "full",
    "sliding_attention": "sliding",
    "chunked_attention": "sliding",
    "linear_attention": "recurrent",
    "mamba": "recurrent",
    "mamba2": "recurrent",
    "conv": "recurrent",  # LFM2's short convolution
    "mlp": "none",
    "moe": "none",
}
_PATTERN_LETTERS: dict[str, LayerKind] = {"M": "recurrent", "*": "full", "-": "none", "E": "none"}
_ENCODERS = (  # beginnings of architectures that read a whole text at once and keep nothing of it
    "Bert", "Roberta", "XLMRoberta", "ModernBert", "NomicBert", "GteModel", "GteNew", "BgeM3", "HF_ColBERT",
    "ColBERTModernBert", "ColBERTJinaRoberta",
)  # fmt: skip
_PERIODS = {
    "Gemma2": 2,
    "Gemma3n": 5,
    "Gemma3": 6,
    "GptOss": 2,
    "Cohere2": 4,
}  # every k-th is full where nothing is said


class Config(Protocol):
    """The part of a config that the kinds are read from."""

    @property
    def family(self) -> str: ...
    @property
    def window(self) -> int | None: ...
    def find(self, *keys: str) -> Any: ...
    def number(self, *keys: str, default: int = 0) -> int: ...


def layer_kinds(config: Config, count: int) -> tuple[LayerKind, ...]:
    """The kind of each of ``count`` layers."""
    if config.family.startswith(_ENCODERS):
        return tuple("none" for _ in range(count))
    named = config.find("layer_types", "layers_block_type")
    if isinstance(named, list) and len(named) >= count:
        return tuple(_windowed(config, _KINDS.get(str(kind), "full")) for kind in named[:count])
    pattern = config.find("hybrid_override_pattern")
    if isinstance(pattern, str) and len(pattern) >= count:
        return tuple(_PATTERN_LETTERS.get(letter, "full") for letter in pattern[:count])
    full = _full_among_recurrent(config)
    if full is not None:
        return tuple("full" if full(index) else "recurrent" for index in range(count))
    return tuple(_sliding_or_full(config, index, count) for index in range(count))


def unknown_kinds(config: Config) -> tuple[str, ...]:
    """Layer types that nobody here knows; they were counted as full attention."""
    named = config.find("layer_types", "layers_block_type")
    return tuple(sorted({str(kind) for kind in named} - _KINDS.keys())) if isinstance(named, list) else ()


def _windowed(config: Config, kind: LayerKind) -> LayerKind:
    return "full" if kind == "sliding" and config.window is None else kind


def _full_among_recurrent(config: Config) -> Callable[[int], bool] | None:
    """Which layers of a hybrid attend, where it says so by a rule; None for a model that is no hybrid."""
    if (interval := config.number("full_attention_interval")) > 0 and config.number("linear_num_value_heads"):
        return lambda index: (index + 1) % interval == 0
    if (period := config.number("attn_layer_period")) > 0:  # Jamba
        return lambda index: index % period == config.number("attn_layer_offset")
    if (indices := config.find("attn_layer_indices")) and isinstance(indices, list):  # Bamba
        return _among(indices)
    if isinstance(types := config.find("attn_type_list"), list):  # MiniMax
        return _among(index for index, kind in enumerate(types) if kind == 1)
    linear = config.find("linear_attn_config")  # Kimi Linear counts from one
    if isinstance(linear, dict) and isinstance(linear.get("full_attn_layers"), list):
        return _among(layer - 1 for layer in linear["full_attn_layers"] if isinstance(layer, int))
    return None


def _among(indices: Iterable[object]) -> Callable[[int], bool]:
    found = {index for index in indices if isinstance(index, int)}
    return lambda index: index in found


def _sliding_or_full(config: Config, index: int, count: int) -> LayerKind:
    if config.window is None:
        return "full"
    pattern = config.find("sliding_window_pattern", "_sliding_window_pattern")
    if isinstance(pattern, str) and pattern:  # EXAONE 4: "LLLG", and the last layer is global
        return "sliding" if index != count - 1 and pattern[index % len(pattern)] == "L" else "full"
    if (first := config.number("max_window_layers")) and config.find("use_sliding_window") is True:  # Qwen 2
        return "sliding" if index >= first else "full"
    period = config.number("sliding_window_pattern", "_sliding_window_pattern") or _period(config.family)
    return "full" if period > 0 and (index + 1) % period == 0 else "sliding"


def _period(family: str) -> int:
    return next((period for name, period in _PERIODS.items() if family.startswith(name)), 0)
