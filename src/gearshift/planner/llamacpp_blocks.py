"""Weights and caches of a GGUF model block by block, and what of them rests on one device."""

from __future__ import annotations

from dataclasses import dataclass

from gearshift.artifacts.facts import ModelFacts
from gearshift.planner.llamacpp_caches import (
    Cells,
    draft_types,
    layer_cache_bytes,
    state_row_bytes,
    state_rows,
    target_types,
)
from gearshift.planner.request import PlanRequest

MIRRORED = 30  # tensor split: about one part in 30 of the weights is whole on every card


@dataclass(frozen=True, slots=True)
class Placed:
    """Bytes of one place (a card, or the host) by line name; absent names are zero."""

    weights: int = 0
    kv: int = 0
    draft_kv: int = 0
    state: int = 0


@dataclass(frozen=True, slots=True)
class Sizes:
    """Caches and weights by block, in file order with the draft head's blocks last; then the output layer."""

    weights: tuple[int, ...]
    kv: tuple[int, ...]
    draft_kv: tuple[int, ...]
    state: tuple[int, ...]

    def on(self, places: tuple[int, ...], device: int) -> Placed:
        """What the blocks placed on ``device`` hold."""
        chosen = [index for index, place in enumerate(places) if place == device]
        return Placed(*(sum(column[index] for index in chosen) for column in self._columns))

    def total(self) -> Placed:
        """Everything in one place."""
        return Placed(*(sum(column) for column in self._columns))

    @property
    def _columns(self) -> tuple[tuple[int, ...], ...]:
        return self.weights, self.kv, self.draft_kv, self.state


def block_sizes(request: PlanRequest, facts: ModelFacts, cells: Cells) -> Sizes:
    """Bytes of every block and of the output layer, whatever device they land on."""
    drafting = request.built_in_draft
    drafts = len(facts.mtp_layers)
    types, row = target_types(request), state_row_bytes(facts) * state_rows(request, facts, cells)
    kv = [layer_cache_bytes(layer, cells, types) for layer in facts.layers]
    state = [row if layer.kind == "recurrent" else 0 for layer in facts.layers]
    draft_kv = [layer_cache_bytes(layer, cells, draft_types(request)) if drafting else 0 for layer in facts.mtp_layers]
    return Sizes(
        weights=(*_block_weights(facts, drafting=drafting), _output_weights(request, facts)),
        kv=(*kv, *([0] * drafts), 0),
        draft_kv=(*([0] * len(kv)), *draft_kv, 0),
        state=(*state, *([0] * drafts), 0),
    )


def _block_weights(facts: ModelFacts, *, drafting: bool) -> tuple[int, ...]:
    """A draft head's blocks are loaded only when it drafts."""
    blocks = len(facts.layers) + len(facts.mtp_layers)
    if len(facts.layer_bytes) != blocks:
        return (0,) * blocks
    target = len(facts.layers)
    return facts.layer_bytes[:target] + (facts.layer_bytes[target:] if drafting else (0,) * (blocks - target))


def _output_weights(request: PlanRequest, facts: ModelFacts) -> int:
    """The output head and norms. A tied head is a second copy of the embedding, but only away from the host."""
    loose = facts.bytes_of(("body",)) - sum(facts.layer_bytes[: len(facts.layers)])
    tied = facts.bytes_of(("embedding",)) if facts.tied_head and request.device_kind != "cpu" else 0
    return facts.bytes_of(("head",)) + loose + tied


def tensor_share(sizes: Sizes, cards: int) -> Placed:
    """Tensor split: heads and rows are shared evenly, what matches no rule is whole on every card."""
    weights = sum(sizes.weights)
    mirrored = weights // MIRRORED
    return Placed(
        weights=(weights - mirrored) // cards + mirrored,
        kv=sum(sizes.kv) // cards,
        draft_kv=sum(sizes.draft_kv) // cards,
        state=sum(sizes.state) // cards,
    )
