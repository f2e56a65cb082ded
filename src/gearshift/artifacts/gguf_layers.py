"""Which layer of a GGUF model keeps what: the rules of llama.cpp b11434, src/models/*.cpp and llama-hparams.cpp."""

from __future__ import annotations

from gearshift.artifacts.facts import Layer, Recurrent
from gearshift.artifacts.gguf_metadata import Hyperparameters

# Period of the sliding pattern where the file does not carry one: layer i slides when i % period < period - 1.
_SLIDING_PERIOD = {
    "afmoe": 4, "cohere2": 4, "exaone-moe": 4, "exaone4": 4, "gemma-embedding": 6, "gemma2": 2, "gemma3": 6,
    "gemma3n": 5, "gpt-oss": 2, "llama4": 4, "mellum": 4, "olmo2": 4, "plamo3": 8,
}  # fmt: skip
_FULL_FIRST = {"cohere2moe": 4, "laguna": 4, "modern-bert": 3, "smallthinker": 4}  # layer i slides when i % period > 0
_INTERVAL_HYBRIDS = frozenset({"qwen3next", "qwen35", "qwen35moe", "qwen4exp", "minimax-01"})
_ALL_RECURRENT = frozenset({"mamba", "mamba2", "rwkv6", "rwkv7", "rwkv6qwen2", "arwkv7"})
_NO_CACHE = frozenset({  # encoders and models that denoise a whole text: llama_model::create_memory gives them none
    "bert", "clef", "dream", "eurobert", "gemma-embedding", "jina-bert-v2", "jina-bert-v3", "llada", "llada-moe",
    "modern-bert", "neo-bert", "nomic-bert", "nomic-bert-moe", "rnd1", "wavtokenizer-dec",
})  # fmt: skip
_DEFAULT_INTERVAL = 4
_GEMMA3N_OWN_KV = 20  # layers of gemma3n that keep a cache; later ones read an earlier layer's


def decoder_layers(params: Hyperparameters) -> tuple[tuple[Layer, ...], tuple[Layer, ...]]:
    """The layers a plain token runs through, and those of the draft head (block_count counts both)."""
    if params.family in _NO_CACHE:
        return (Layer("none"),) * params.blocks, ()
    blocks, drafts = params.blocks, params.number("nextn_predict_layers")
    drafts = drafts if 0 < drafts < blocks else 0
    recurrent, sliding = _recurrent_flags(params, blocks - drafts), _sliding_flags(params, blocks)
    shapes = _attention_shapes(params, sliding)
    own = _layers_with_own_cache(params, blocks)
    target = tuple(
        Layer("recurrent") if is_recurrent else (shape if index < own else Layer("none"))
        for index, (shape, is_recurrent) in enumerate(zip(shapes, recurrent, strict=False))
    )
    return target, shapes[blocks - drafts :]


def recurrent_shape(params: Hyperparameters) -> Recurrent | None:
    """The state of one recurrent layer and sequence, or None for a model without such layers."""
    kernel = params.number("ssm.conv_kernel")
    if params.has("shortconv.l_cache"):  # LFM2 keeps a short convolution and nothing else
        return Recurrent(params.number("shortconv.l_cache"), params.number("embedding_length"), 0)
    if params.has("kda.head_dim"):  # Kimi delta attention keeps three convolutions
        inner = params.number("attention.head_count") * params.number("kda.head_dim")
        return Recurrent(kernel or 4, 3 * inner, inner * params.number("kda.head_dim"))
    if not kernel:
        return None
    inner, state = params.number("ssm.inner_size"), params.number("ssm.state_size")
    return Recurrent(kernel, inner + 2 * params.number("ssm.group_count") * state, inner * state)


def _attention_shapes(params: Hyperparameters, sliding: tuple[bool, ...]) -> tuple[Layer, ...]:
    if params.has("attention.key_length_mla"):
        return (Layer("latent", 1, params.number("attention.key_length"), 0),) * len(sliding)
    heads = params.per_layer("attention.head_count_kv", len(sliding), params.number("attention.head_count"))
    queries = params.number("attention.head_count")
    default = params.number("embedding_length") // queries if queries else 0
    key, value = (params.number(f"attention.{part}_length", default) for part in ("key", "value"))
    full = tuple(Layer("full", count, key, value) if count else Layer("none") for count in heads)
    if not any(sliding):
        return full
    key_swa, value_swa = (
        params.number(f"attention.{part}_length_swa", usual) for part, usual in (("key", key), ("value", value))
    )
    windowed = tuple(Layer("sliding", count, key_swa, value_swa) for count in heads)
    return tuple(swa if slides else plain for plain, swa, slides in zip(full, windowed, sliding, strict=True))


def _recurrent_flags(params: Hyperparameters, count: int) -> tuple[bool, ...]:
    if params.family in _ALL_RECURRENT:
        return (True,) * count
    if recurrent_shape(params) is None:
        return (False,) * count
    if params.has("attention.recurrent_layers"):
        return tuple(bool(flag) for flag in params.per_layer("attention.recurrent_layers", count))
    if params.family in _INTERVAL_HYBRIDS or params.has("full_attention_interval"):
        interval = max(params.number("full_attention_interval", _DEFAULT_INTERVAL), 1)
        return tuple((index + 1) % interval != 0 for index in range(count))
    heads = params.per_layer("attention.head_count_kv", count)
    dense = params.per_layer("feed_forward_length", count) if params.family.startswith("nemotron") else (0,) * count
    return tuple(not kv and not ffn for kv, ffn in zip(heads, dense, strict=True))


def _sliding_flags(params: Hyperparameters, count: int) -> tuple[bool, ...]:
    if not params.number("attention.sliding_window"):
        return (False,) * count
    if isinstance(params.find("attention.sliding_window_pattern"), tuple):
        return tuple(bool(flag) for flag in params.per_layer("attention.sliding_window_pattern", count))
    if params.family in _FULL_FIRST:
        return tuple(index % _FULL_FIRST[params.family] > 0 for index in range(count))
    default = _SLIDING_PERIOD.get(params.family, 0)  # none for phi3, whose window llama.cpp ignores
    period = params.number("attention.sliding_window_pattern", default)
    return tuple(period > 0 and index % period < period - 1 for index in range(count))


def _layers_with_own_cache(params: Hyperparameters, count: int) -> int:
    if params.family == "gemma3n":
        return _GEMMA3N_OWN_KV
    return count - params.number("attention.shared_kv_layers")
