"""llama.cpp's caches: attention KV, sliding windows, recurrent state, draft head. Exact to the byte (b11434).

Sources: src/llama-context.cpp:266-305, llama-kv-cache.cpp, llama-kv-cache-iswa.cpp:73, llama-memory-recurrent.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from gearshift.artifacts.facts import Layer, ModelFacts
from gearshift.planner.kv_types import ggml_cache_bytes
from gearshift.planner.request import PlanRequest

AUTO_SLOTS = 4  # -np unset: four slots that share one unified cache
_ROLLBACK_METHODS = frozenset({"eagle3", "draft-eagle3", "dflash", "draft-dflash", "dspark", "draft-dspark"})
_ROLLBACK_FAMILIES = frozenset({
    "qwen35", "qwen35moe", "qwen4exp", "kimi-k3", "deepseek4", "glm5-next", "nemotron_h", "nemotron_h_moe", "lfm2",
    "lfm2moe", "bailingmoe3",
})  # fmt: skip
_STATE_ELEMENT = 4  # always float32


@dataclass(frozen=True, slots=True)
class Cells:
    """How a context of a given length is cut into streams: one when unified, else one per slot."""

    slots: int
    unified: bool
    per_stream: int
    sliding: int  # cells of a sliding layer, per stream

    @property
    def streams(self) -> int:
        return 1 if self.unified else self.slots

    @property
    def total(self) -> int:
        return self.per_stream * self.streams


def cells_of(request: PlanRequest, facts: ModelFacts) -> Cells:
    """Cells for the request's context (default: the model's own). Never fewer than asked for."""
    slots = request.parallel or AUTO_SLOTS
    unified = request.unified_kv if request.unified_kv is not None else request.parallel is None
    context = _padded(request.context or request.positions or facts.context_train or 0)
    per_stream = context if unified else _padded(context // slots)
    window = (facts.window or 0) * (slots if unified else 1) + micro_batch(request)
    sliding = per_stream if request.full_sliding_cache else _padded(min(per_stream, window))
    return Cells(slots, unified, per_stream, sliding)


def micro_batch(request: PlanRequest) -> int:
    """-ub, never more than -b or the context."""
    return min(request.ubatch, request.batch, request.context or request.ubatch)


def layer_cache_bytes(layer: Layer, cells: Cells, types: tuple[Fraction, Fraction]) -> int:
    """KV bytes of one attention layer over all streams; 0 for layers that keep no KV."""
    rows = cells.sliding if layer.kind == "sliding" else cells.per_stream
    return int(_row_bytes(layer, types) * rows) * cells.streams


def bytes_per_token(facts: ModelFacts, types: tuple[Fraction, Fraction]) -> int:
    """What one more token of context costs in the layers that keep all of it; the draft head left out."""
    return int(sum(_row_bytes(layer, types) for layer in facts.layers if layer.kind in {"full", "latent"}))


def target_types(request: PlanRequest) -> tuple[Fraction, Fraction]:
    """Bytes per element of K and V. Raises ValueError for a type llama.cpp does not have."""
    return _types(request.kv_dtype)


def draft_types(request: PlanRequest) -> tuple[Fraction, Fraction]:
    """The draft context's own types: f16 unless -ctkd/-ctvd say otherwise, whatever the target uses."""
    return _types(request.draft_kv_dtype)


def state_rows(request: PlanRequest, facts: ModelFacts, cells: Cells) -> int:
    """Rows of recurrent state: one a slot, and one more per drafted token where the model can roll back."""
    method = request.speculation.method if request.speculation else ""
    rolls_back = (request.built_in_draft or method in _ROLLBACK_METHODS) and facts.family in _ROLLBACK_FAMILIES
    return cells.slots * (1 + request.drafted) if rolls_back else cells.slots


def state_row_bytes(facts: ModelFacts) -> int:
    """One layer's recurrent state of one row."""
    shape = facts.recurrent
    return (shape.conv_elements() + shape.state_elements) * _STATE_ELEMENT if shape else 0


def _row_bytes(layer: Layer, types: tuple[Fraction, Fraction]) -> Fraction:
    keys, values = types
    return layer.kv_heads * (layer.key_dim * keys + layer.value_dim * values)


def _types(name: str | None) -> tuple[Fraction, Fraction]:
    keys, comma, values = (name or "f16").replace(" ", "").partition(",")
    return ggml_cache_bytes(keys), ggml_cache_bytes(values if comma else keys)


def _padded(count: int) -> int:
    return -(-count // 256) * 256
