"""One llama-server start with its cells, block sizes and reservation worked out."""

from __future__ import annotations

from dataclasses import dataclass

from gearshift.artifacts.facts import ModelFacts
from gearshift.planner.llamacpp_blocks import Sizes, block_sizes
from gearshift.planner.llamacpp_caches import Cells, cells_of
from gearshift.planner.llamacpp_compute import Batch, batch_of
from gearshift.planner.request import PlanRequest


@dataclass(frozen=True, slots=True)
class LlamaStart:
    """A request resolved against one model."""

    request: PlanRequest
    facts: ModelFacts
    cells: Cells
    sizes: Sizes
    batch: Batch

    @property
    def splits_tensors(self) -> bool:
        return self.request.split == "tensor" and len(self.request.devices) > 1

    @property
    def partly_offloaded(self) -> bool:
        """Whether layers stay in host memory although there is a card."""
        layers = self.request.gpu_layers
        return self.request.device_kind == "cuda" and layers is not None and layers <= len(self.facts.layers)

    @property
    def contexts(self) -> int:
        """The target's, and the draft head's own."""
        return 2 if self.request.built_in_draft else 1


def resolve(request: PlanRequest, facts: ModelFacts) -> LlamaStart:
    """Work out a start. Raises ValueError for a cache type that llama.cpp does not have."""
    cells = cells_of(request, facts)
    return LlamaStart(request, facts, cells, block_sizes(request, facts, cells), batch_of(request, facts, cells))
