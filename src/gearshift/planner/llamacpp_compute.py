"""llama.cpp's compute and output buffers: modelled from its logs, since the graph allocator decides them.

Checked against b9849 to b11434 logs and a real b11434 on the CPU; docs/planner.md states how well they hold.
"""

from __future__ import annotations

from dataclasses import dataclass

from gearshift.artifacts.facts import ModelFacts
from gearshift.domain.units import GIB, MIB
from gearshift.planner.ledger import Line
from gearshift.planner.llamacpp_caches import Cells, micro_batch
from gearshift.planner.request import PlanRequest

_FLOAT, _MASK = 4, 2  # bytes of an activation and of a float16 mask entry
_PIPELINE_COPIES = 4  # GGML_SCHED_MAX_COPIES: inputs are kept four times when layers are pipelined
_DRIVER = (300 * MIB, 150 * MIB)  # CUDA context and pools per card, which no log line shows
_FILL_PER_TOKEN = 8000  # bytes: flash-attention scratch grows with the filled context, after the ledger was printed
_FILL_BASE = GIB // 2
_PROJECTOR_COMPUTE = (248 * MIB, 60 * MIB)
_ERROR, _PIPELINED_ERROR = 5, 2  # a fifth of a modelled compute buffer; half where layers are pipelined


@dataclass(frozen=True, slots=True)
class Batch:
    """The sizes a graph is reserved for."""

    tokens: int  # micro batch
    masked_cells: int  # cells of all caches that one stream of the context sees; without any, the batch itself
    copies: int  # of every input


def batch_of(request: PlanRequest, facts: ModelFacts, cells: Cells) -> Batch:
    """One context's reservation; pipelining needs several cards, layer split and everything offloaded."""
    pipelined = (
        request.device_kind == "cuda"
        and len(request.devices) > 1
        and request.split == "layer"
        and request.gpu_layers is None
        and not request.overrides
        and not request.caches_on_host
    )
    sliding = cells.sliding if facts.count("sliding") else 0
    seen = cells.per_stream + sliding if facts.keeps_anything else micro_batch(request)
    return Batch(micro_batch(request), seen, _PIPELINE_COPIES if pipelined else 1)


def host_compute(facts: ModelFacts, batch: Batch, *, layers_stay: bool = False) -> int:
    """Pinned inputs of one context: the attention mask, once more where layers stay behind, and two embedding rows."""
    mask = (batch.copies + layers_stay) * batch.masked_cells * batch.tokens * _MASK
    return mask + 2 * batch.tokens * facts.hidden * _FLOAT


def device_compute(facts: ModelFacts, batch: Batch, *, draft: bool = False) -> int:
    """A card's scratch of one context: the mask again, FFN rows, and residual rows."""
    width = 3 * widest_ffn(facts) + (2 if draft else 3) * facts.hidden
    return batch.copies * batch.masked_cells * batch.tokens * _MASK + batch.tokens * width * _FLOAT


def cpu_compute(facts: ModelFacts, batch: Batch, *, draft: bool = False) -> int:
    """On the CPU inputs and scratch are one buffer with one mask."""
    mask = batch.masked_cells * batch.tokens * _MASK
    return host_compute(facts, batch) + device_compute(facts, batch, draft=draft) - mask


def widest_ffn(facts: ModelFacts) -> int:
    """FFN row of one token: the dense width, or the experts a token visits side by side."""
    experts = facts.experts
    routed = experts.used * experts.ffn if experts and experts.ffn else 0
    return max(facts.ffn or 0, routed)


def compute_line(name: str, size: int, batch: Batch) -> Line:
    """A compute buffer with its model's error."""
    return Line(name, size, "modelled", size // (_PIPELINED_ERROR if batch.copies > 1 else _ERROR))


def output_lines(facts: ModelFacts, cells: Cells, *, contexts: int = 1) -> tuple[Line, ...]:
    """Logits of one row per slot, on the host, for each context; no line where the vocabulary is not known."""
    return (Line("output buffer", contexts * cells.slots * facts.vocab * _FLOAT),) if facts.vocab else ()


def card_lines(request: PlanRequest, cells: Cells) -> tuple[Line, ...]:
    """What every card holds beside llama.cpp's own buffers: the driver's share and room for a filled context."""
    fill = cells.total * _FILL_PER_TOKEN // (len(request.devices) if request.split == "tensor" else 1)
    return (
        Line("driver", _DRIVER[0], "modelled", _DRIVER[1]),
        Line("fill reserve", fill + _FILL_BASE, "modelled"),
    )


def projector_lines(request: PlanRequest) -> tuple[Line, ...]:
    """The image projector: its weights and its own compute buffer, on the first device."""
    if not request.projector_bytes:
        return ()
    size, error = _PROJECTOR_COMPUTE
    return (Line("projector", request.projector_bytes), Line("projector compute", size, "modelled", error))
