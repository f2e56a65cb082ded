"""What llama.cpp keeps of prompts in host memory: context checkpoints of a slot, and whole prompts in its cache.

A model that cannot roll back freely (recurrent state, sliding windows) is given checkpoints to resume from. Each holds
one row of state, the window's cells and, since its cache ignores the partial flag, all of the draft context so far
(llama-kv-cache.cpp:2071, b11434).
"""

from __future__ import annotations

from gearshift.artifacts.facts import LayerKind, ModelFacts
from gearshift.planner.llamacpp_caches import bytes_per_token, cells_of, draft_types, state_row_bytes, target_types
from gearshift.planner.request import PlanRequest

_BOOKKEEPING = 25  # bytes of a token beside its caches, in three logs


def checkpoint_bytes(request: PlanRequest, facts: ModelFacts, tokens: int) -> int:
    """One context checkpoint made at so many tokens; 0 for models that need none."""
    if not (facts.hybrid or facts.count("sliding")):
        return 0
    return _state(facts) + _window(request, facts, tokens) + tokens * (_draft_token(request, facts) + _BOOKKEEPING)


def full_slot_bytes(request: PlanRequest, facts: ModelFacts) -> int:
    """All checkpoints that the slots keep once the context is full, made no closer than ``checkpoint_spacing``."""
    cells = cells_of(request, facts)
    kept = min(request.checkpoints, cells.per_stream // max(request.checkpoint_spacing, 1))
    places = (request.checkpoint_spacing * place for place in range(1, kept + 1))
    return cells.streams * sum(checkpoint_bytes(request, facts, tokens) for tokens in places)


def saved_prompt_bytes(request: PlanRequest, facts: ModelFacts, tokens: int) -> int:
    """One entry of the prompt cache (``-cram``), its own checkpoints left out."""
    token = bytes_per_token(facts, target_types(request)) + _draft_token(request, facts) + _BOOKKEEPING
    return _state(facts) + _window(request, facts, tokens) + tokens * token


def _state(facts: ModelFacts) -> int:
    return facts.count("recurrent") * state_row_bytes(facts)


def _window(request: PlanRequest, facts: ModelFacts, tokens: int) -> int:
    return min(tokens, facts.window or tokens) * _token(request, facts, "sliding")


def _token(request: PlanRequest, facts: ModelFacts, kind: LayerKind) -> int:
    keys, values = target_types(request)
    layers = (layer for layer in facts.layers if layer.kind == kind)
    return int(sum(layer.kv_heads * (layer.key_dim * keys + layer.value_dim * values) for layer in layers))


def _draft_token(request: PlanRequest, facts: ModelFacts) -> int:
    if not request.built_in_draft:
        return 0
    keys, values = draft_types(request)
    return int(sum(layer.kv_heads * (layer.key_dim * keys + layer.value_dim * values) for layer in facts.mtp_layers))
