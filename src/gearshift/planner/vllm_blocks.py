"""vLLM's block arithmetic: page bytes, block size of hybrids, cache groups, blocks per request.

Checked against the engine's own planner for 0.22 to 0.33 and against public logs; where it is not exact the layout
says so. Sources: v1/core/kv_cache_utils.py and platforms/interface.py of vLLM 0.32.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gearshift.artifacts.facts import Layer, ModelFacts, Recurrent
from gearshift.planner.kv_types import dtype_bytes, keeps_outer_layers, packed_bytes
from gearshift.planner.request import PlanRequest
from gearshift.planner.vllm_rules import VllmRules

_CUDA_BLOCKS, _CPU_BLOCKS = (16, 16), (32, 128)  # smallest kernel block, default block size
_LATENT_BLOCK = 128
_PREFERRED_BLOCKS = {"ultraquant_4bit": 64}  # by cache type, where its backend asks for more than the usual block
_OUTER_LAYERS = 2  # at either end of a model, which some packed types leave as they are
_GDN_CHUNK = 64  # chunk of the "all" cache mode; its block size is modelled only
_UNEVEN = 1.5  # buckets within this ratio are padded to the larger one
_PROVEN_PACKED = frozenset({"turboquant_4bit_nc"})  # reproduced from a log; other packed types are formulas only


@dataclass(frozen=True, slots=True)
class BlockLayout:
    """How one model's caches share a pool of block ids on one GPU. Every id costs ``bytes_per_block``."""

    block_size: int  # tokens
    page_bytes: int  # one layer's share of a block, the widest where layers differ
    bytes_per_block: int  # what one block id costs over all layers of a group
    group_size: int  # layers (padded) in every group
    full_groups: int
    sliding_groups: int
    state_groups: int
    window: int
    in_flight: int  # tokens scheduled and not finished, which a sliding group must also hold
    state_mode: str  # "none" | "align" | "all"
    drafted: int
    state_bytes: int  # one layer's recurrent state before padding; 0 without
    exact: bool
    notes: tuple[str, ...] = ()

    @property
    def padding_percent(self) -> float | None:
        """How much the recurrent state's page is padded, as the engine's log says it."""
        return 100 * (self.page_bytes - self.state_bytes) / self.state_bytes if self.state_bytes else None

    def blocks_for(self, length: int) -> int:
        """Block ids that one request of ``length`` tokens holds at its end."""
        whole = -(-length // self.block_size)
        held = min(self.window - 1 + self.in_flight, length)
        sliding = -(-held // self.block_size) + 1
        states = {"align": 2 + self.drafted, "all": whole + self.drafted}.get(self.state_mode, 1 + self.drafted)
        return self.full_groups * whole + self.sliding_groups * sliding + self.state_groups * states


def block_layout(request: PlanRequest, facts: ModelFacts, rules: VllmRules, *, batched_tokens: int) -> BlockLayout:
    """The layout on each of ``len(request.devices)`` tensor-parallel ranks."""
    ranks = max(len(request.devices), 1)
    drafts = _draft_layers(request, facts)
    own = target_token_bytes(request, facts, ranks)
    token_bytes = [size for _, size in own] + [
        layer_token_bytes(layer, request, facts, ranks) for layer in drafts if layer.kv_elements
    ]
    widest, state = max(token_bytes, default=0), _state_bytes(request, facts, ranks)
    mode = cache_mode(request, facts, rules)
    block = _block_size(request, facts, mode, token_bytes=token_bytes, state_bytes=state)
    buckets = _buckets((*facts.layers, *drafts))
    group = _group_size([count for count in buckets if count])
    full, sliding, states = (-(-count // group) for count in buckets)
    page, one_kind = max(block * widest, state), sliding + states == 0
    reasons = _doubts(request, facts, rules, mixed=len(set(token_bytes)) > 1 and not one_kind, one_kind=one_kind)
    return BlockLayout(
        block_size=block,
        page_bytes=page,
        bytes_per_block=block * sum(token_bytes) if one_kind else group * page,
        group_size=group,
        full_groups=full,
        sliding_groups=sliding,
        state_groups=states,
        window=facts.window or (request.draft.window if request.draft else None) or 0,
        in_flight=batched_tokens * (2 if _asynchronous(request, rules) else 1),
        state_mode=mode,
        drafted=request.drafted,
        state_bytes=state,
        exact=not reasons,
        notes=reasons,
    )


def _draft_layers(request: PlanRequest, facts: ModelFacts) -> tuple[Layer, ...]:
    """The drafter's layers, which draw on the same pool: of the built-in head, or of a separate model."""
    if request.built_in_draft:
        return facts.mtp_layers
    return request.draft.layers if request.draft else ()


def target_token_bytes(request: PlanRequest, facts: ModelFacts, ranks: int) -> tuple[tuple[Layer, int], ...]:
    """The target's layers that keep a cache, each with its bytes for one token on one rank."""
    plain, kept = replace(request, kv_dtype="auto"), _kept_as_they_are(request, facts)
    return tuple(
        (layer, layer_token_bytes(layer, plain if index in kept else request, facts, ranks))
        for index, layer in enumerate(facts.layers)
        if layer.kv_elements
    )


def _kept_as_they_are(request: PlanRequest, facts: ModelFacts) -> frozenset[int]:
    """Layers at both ends that a packed type does not pack; a hybrid has too few attention layers for that."""
    if facts.hybrid or not keeps_outer_layers(request.kv_dtype or "auto"):
        return frozenset()
    count = len(facts.layers)
    outer = min(_OUTER_LAYERS, count // 2)
    return frozenset(range(outer)) | frozenset(range(count - outer, count))


def layer_token_bytes(layer: Layer, request: PlanRequest, facts: ModelFacts, ranks: int) -> int:
    """Cache bytes of one attention layer for one token on one rank."""
    kind = request.kv_dtype or "auto"
    element = dtype_bytes(activation_dtype(request, facts) if kind == "auto" else kind)
    if layer.kind == "latent":  # compressed once for all heads, not divided among ranks
        return layer.kv_elements * (element or 1)
    heads = max(1, layer.kv_heads // ranks)
    if element is not None:
        return heads * (layer.key_dim + layer.value_dim) * element
    packed = packed_bytes(kind, heads, layer.key_dim, layer.value_dim)
    return packed if packed is not None else heads * (layer.key_dim + layer.value_dim)


def activation_dtype(request: PlanRequest, facts: ModelFacts) -> str:
    """What "auto" means: the model's type, where float32 checkpoints run in bfloat16."""
    if request.dtype and request.dtype != "auto":
        return request.dtype
    return "bfloat16" if facts.dtype == "float32" else facts.dtype


def cache_mode(request: PlanRequest, facts: ModelFacts, rules: VllmRules) -> str:
    """The recurrent state's cache mode: ``none`` without prefix caching, else ``align`` (or ``all``, up to 0.31)."""
    if not facts.hybrid or not caches_prefixes(request, facts, rules):
        return "none"
    mamba = facts.recurrent is not None and facts.recurrent.kind == "mamba"
    default = "all" if mamba and rules.mamba_takes_all else "align"
    return "all" if (request.cache_mode or default) == "all" and rules.has_all_mode else "align"


def caches_prefixes(request: PlanRequest, facts: ModelFacts, rules: VllmRules) -> bool:
    """Whether prefix caching is on: asked for, or this version's default for this kind of model."""
    if request.prefix_caching is not None:
        return request.prefix_caching
    return rules.caches_hybrid_prefixes if facts.hybrid else True


def _asynchronous(request: PlanRequest, rules: VllmRules) -> bool:
    if request.device_kind == "cpu" or not rules.async_by_default:
        return False
    if request.async_scheduling is not None:
        return request.async_scheduling
    method = request.speculation.method if request.speculation else None
    return method not in {"ngram", "suffix"}  # these draft on the host and switch it off (config/vllm.py)


def _state_bytes(request: PlanRequest, facts: ModelFacts, ranks: int) -> int:
    shape = facts.recurrent
    if shape is None or not facts.hybrid:
        return 0
    conv = dtype_bytes(request.conv_dtype or activation_dtype(request, facts)) or 2
    state = _state_element_bytes(request, shape, conv)
    return shape.conv_elements(request.drafted) // ranks * conv + shape.state_elements // ranks * state


def _state_element_bytes(request: PlanRequest, shape: Recurrent, conv: int) -> int:
    if request.device_kind == "cpu":  # the CPU kernels keep it in float32 whatever is asked for
        return 4
    asked = request.state_dtype or shape.state_dtype
    return dtype_bytes(asked) or conv if asked else conv


def _block_size(
    request: PlanRequest, facts: ModelFacts, mode: str, *, token_bytes: Sequence[int], state_bytes: int
) -> int:
    """Tokens per block: the configured size, enlarged until an attention page holds a recurrent state.

    Where some layers are not packed, a packed page has to hold what one of theirs does.
    """
    if request.calibration and request.calibration.block_size:
        return request.calibration.block_size
    kernel, default = _CPU_BLOCKS if request.device_kind == "cpu" else _CUDA_BLOCKS
    preferred = _PREFERRED_BLOCKS.get(request.kv_dtype or "auto", default)
    configured = request.block_size or max(default, preferred, _LATENT_BLOCK if facts.count("latent") else 0)
    if token_bytes and _kept_as_they_are(request, facts):
        return configured * -(-kernel * max(token_bytes) // (configured * min(token_bytes)))
    if not state_bytes or not token_bytes:
        return configured
    tokens = -(-state_bytes // max(token_bytes))
    step = _GDN_CHUNK if mode == "all" else max(kernel, configured)
    return max(configured, step * -(-tokens // step))


def _buckets(layers: Sequence[Layer]) -> tuple[int, int, int]:
    """Layers by cache kind: full (the draft head joins them), sliding, recurrent."""
    kinds = Counter(layer.kind for layer in layers)
    return kinds["full"] + kinds["latent"], kinds["sliding"], kinds["recurrent"]


def _group_size(buckets: Sequence[int]) -> int:
    if not buckets:
        return 1
    return max(buckets) if max(buckets) < _UNEVEN * min(buckets) else min(buckets)


def _doubts(
    request: PlanRequest, facts: ModelFacts, rules: VllmRules, *, mixed: bool, one_kind: bool
) -> tuple[str, ...]:
    """Why the layout is modelled and not exact; empty when it is exact."""
    kind = request.kv_dtype or "auto"
    plain = kind == "auto" or dtype_bytes(kind) is not None
    mode = cache_mode(request, facts, rules)
    formula = not plain and packed_bytes(kind, 1, 1, 1) is not None
    method = request.speculation.method if request.speculation else None
    drafter = method is not None and not request.built_in_draft and method not in {"ngram", "ngram_gpu", "suffix"}
    found = {
        f"vLLM {rules.name} is outside 0.22 to 0.33": not rules.known,
        f"the layout of cache type {kind} is a formula no log has confirmed": formula and kind not in _PROVEN_PACKED,
        f"no formula is known for cache type {kind}: one byte an element is assumed": not plain and not formula,
        "layers with different head sizes share pages in a way that is not modelled": mixed,
        f"the first and the last two layers are not packed to {kind}, and how they share blocks follows the source of "
        "0.32": bool(_kept_as_they_are(request, facts)),
        "latent attention's block size depends on the backend": facts.count("latent") > 0,
        "the cache mode all is modelled": mode == "all",
        f"layers of type {', '.join(facts.unknown_kinds)} are not known: they are counted as full attention": bool(
            facts.unknown_kinds
        ),
        "the state of Mamba layers and their like follows the engine's source, no log has confirmed it": facts.hybrid
        and facts.recurrent is not None
        and facts.recurrent.kind == "mamba",
        "FlashInfer's GDN prefill may add a checkpoint block per state group": rules.may_checkpoint
        and mode == "align"
        and request.device_kind == "cuda",
        f"the layers of a {method} drafter are not in the block arithmetic": drafter and request.draft is None,
        "the draft model's layers are counted like the target's, no log has confirmed it": drafter
        and request.draft is not None
        and not one_kind,
    }
    return tuple(reason for reason, holds in found.items() if holds)
