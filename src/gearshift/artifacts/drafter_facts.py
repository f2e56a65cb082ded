"""What a separate drafter's files say of the target it was made for, and whether its tensors fit its own config."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gearshift.artifacts.facts import Layer
from gearshift.artifacts.hf_config import HfConfig
from gearshift.artifacts.safetensors import SafeTensor

_READERS = ("eagle", "dflash", "dspark")  # drafters that take in the target's hidden states, by a part of their name
_PLAIN = frozenset({"BF16", "F16", "F32"})  # packed types have sides of their own


def reads_hidden_states(family: str) -> bool:
    """Whether an architecture drafts from the target's hidden states and shares its embedding."""
    return any(part in family.lower() for part in _READERS)


def target_width(config: HfConfig) -> int | None:
    """Width of the hidden states a drafter was trained on, as vLLM takes it; None for what reads none."""
    if not reads_hidden_states(config.family):
        return None
    return config.number("target_hidden_size", "hidden_size") or None


def misshapen(tensors: Iterable[SafeTensor], layers: Iterable[Layer], heads: int) -> tuple[str, ...]:
    """Attention tensors in plain types of another shape than ``layers`` give: vLLM builds from the config and stops.

    The norms of queries and keys are as long as a head, or as all of them; keys and values have a row for each
    element of a token. ``heads`` are the query heads.
    """
    kept = [layer for layer in layers if layer.kind in {"full", "sliding"}]
    return tuple(text for tensor in tensors if tensor.type in _PLAIN and kept for text in _faults(tensor, kept, heads))


def _faults(tensor: SafeTensor, layers: list[Layer], heads: int) -> Iterator[str]:
    sizes = {
        "q_norm.weight": {size for layer in layers for size in (layer.key_dim, heads * layer.key_dim)},
        "k_norm.weight": {size for layer in layers for size in (layer.key_dim, layer.kv_heads * layer.key_dim)},
        "k_proj.weight": {layer.kv_heads * layer.key_dim for layer in layers},
        "v_proj.weight": {layer.kv_heads * layer.value_dim for layer in layers},
    }
    built = next((wanted for end, wanted in sizes.items() if tensor.name.endswith(f".self_attn.{end}")), None)
    if built and tensor.shape and tensor.shape[0] not in built:
        yield f"{tensor.name} has {tensor.shape[0]} rows where the config makes {min(built)}"
