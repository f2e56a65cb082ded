"""The roofline of decoding: how many tokens a second the hardware allows, and which bytes take the time.

One step reads the target's weights, the cache up to the depth and the recurrent state, and drafts k tokens first.
Nothing here is fitted: what a real step takes beyond it (launches, all-reduces, sampling) stays unexplained on purpose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

_BLOCK_RATE = 28e9  # bytes/s that one block of that kernel reads
Term = Literal["weights", "kv", "state", "draft", "compute"]


@dataclass(frozen=True, slots=True)
class Workload:
    """What one decode step moves, in bytes; per token where it says so. All terms are of one sequence's model."""

    body_bytes: int  # weights one token reads, without embedding, head, draft head, vision
    head_bytes: int  # output matrix: read by the target pass and again for every drafted token
    kv_token_bytes: float = 0.0  # of all full-attention layers
    sliding_token_bytes: float = 0.0  # of sliding layers, which count at most ``window`` tokens
    window: int = 0
    state_bytes: int = 0  # recurrent state of one sequence: read once, a row written per verified token
    draft_bytes: int = 0  # weights of the multi-token-prediction block, or of a whole draft model
    draft_reads_head: bool = True  # a draft head shares the target's output matrix; other drafters do not
    draft_kv_token_bytes: float = 0.0
    catches_up: bool = False  # llama.cpp runs the draft layer once more over the accepted tokens
    active_parameters: float = 0.0  # of one token; 0 = leave the compute bound out
    routed_bytes: int = 0  # routed experts within ``body_bytes``, of which a step touches a part
    experts: int = 0
    experts_used: int = 0


@dataclass(frozen=True, slots=True)
class Hardware:
    """What the cards allow: ``bandwidth`` in bytes/s of one card, ``flops`` of one card, ``cards`` working at once.

    Layer split lets one card work at a time: then ``cards`` is 1.
    """

    bandwidth: float
    flops: float | None = None
    cards: int = 1


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The bound of one step. Times in seconds; ``tokens_per_step`` counts one sequence."""

    tok_s: float  # over all sequences
    step_s: float
    tokens_per_step: float
    weights_s: float
    kv_s: float
    state_s: float
    draft_s: float
    compute_s: float | None  # None where the card's compute rate is not known
    dominant: Term

    @property
    def moved_s(self) -> float:
        """Time of all bytes, whether or not compute takes longer."""
        return self.weights_s + self.kv_s + self.state_s + self.draft_s

    def shares(self) -> dict[Term, float]:
        """Each byte term's part of the bytes' time; they add up to 1."""
        parts: dict[Term, float] = {
            "weights": self.weights_s,
            "kv": self.kv_s,
            "state": self.state_s,
            "draft": self.draft_s,
        }
        return {term: part / self.moved_s for term, part in parts.items()}

    def unexplained_s(self, measured_tok_s: float) -> float:
        """Seconds of a measured step that no byte accounts for: launches, all-reduces, sampling."""
        return self.tok_s * self.step_s / measured_tok_s - self.step_s

    def with_overhead(self, overhead_s: float) -> float:
        """tok/s expected when every step takes ``overhead_s`` more than its bytes."""
        return self.tok_s * self.step_s / (self.step_s + overhead_s)

    def fraction_of(self, measured_tok_s: float) -> float:
        """How much of the ceiling a measured speed reaches."""
        return measured_tok_s / self.tok_s


def decode_ceiling(
    work: Workload, hardware: Hardware, *, depth: int, batch: int = 1, acceptance: Sequence[float] = ()
) -> Ceiling:
    """The ceiling at ``depth`` tokens of context with ``batch`` sequences.

    ``acceptance``: accepted at each drafted position over drafts (unconditional); its length is the number of
    drafted tokens, and empty means no speculation.
    """
    drafted = len(acceptance)
    rate = hardware.bandwidth * hardware.cards
    reads = _attended(work, depth)
    weights = (_weights(work, batch * (drafted + 1)) + work.head_bytes) / rate
    kv = batch * reads / rate
    state = batch * work.state_bytes * (2 + drafted if work.state_bytes else 0) / rate
    draft = _draft_bytes(work, depth, batch, drafted) / rate
    compute = _compute_s(work, hardware, tokens=batch * (drafted + 1))
    terms: dict[Term, float] = {"weights": weights, "kv": kv, "state": state, "draft": draft}
    moved = sum(terms.values())
    bound_by_compute = compute is not None and compute > moved
    expected = 1 + sum(acceptance)
    step = max(moved, compute or 0.0)
    return Ceiling(
        tok_s=batch * expected / step,
        step_s=step,
        tokens_per_step=expected,
        weights_s=weights,
        kv_s=kv,
        state_s=state,
        draft_s=draft,
        compute_s=compute,
        dominant="compute" if bound_by_compute else max(terms, key=lambda term: terms[term]),
    )


def cost_ratio(work: Workload, hardware: Hardware, *, depth: int, drafted: int, batch: int = 1) -> float:
    """How much longer a step with ``drafted`` tokens takes: the tokens per step that speculation must exceed."""
    with_draft = decode_ceiling(work, hardware, depth=depth, batch=batch, acceptance=(0.0,) * drafted)
    return with_draft.step_s / decode_ceiling(work, hardware, depth=depth, batch=batch).step_s


def fitted_overhead(bounds: Sequence[Ceiling], measured_tok_s: Sequence[float]) -> float:
    """One constant of seconds per step that explains measurements at several depths: the median of what is left.

    Raises ValueError for no measurement, or for as many bounds as there are not.
    """
    return median(bound.unexplained_s(measured) for bound, measured in zip(bounds, measured_tok_s, strict=True))


def lone_verification_s(depth: int, *, head_token_bytes: int) -> float:
    """Seconds by which drafts lengthen a step at ``depth`` under vLLM's TRITON_ATTN, as far as its faulty kernel goes.

    When it verifies drafts, one block walks the whole history of one cache head alone (vLLM PR 51995).
    ``head_token_bytes`` are keys and values of one head over all its layers. The one rate that is fitted here explains
    two ladders of one owner within a sixth: an explanation, no proof.
    """
    return depth * head_token_bytes / _BLOCK_RATE


def experts_touched(experts: int, used: int, tokens: int) -> float:
    """How many of ``experts`` a step of ``tokens`` tokens reads when each picks ``used`` of them evenly."""
    return experts * (1 - (1 - used / experts) ** tokens)


def _attended(work: Workload, depth: int) -> float:
    sliding = min(depth, work.window) if work.window else depth
    return depth * work.kv_token_bytes + sliding * work.sliding_token_bytes


def _weights(work: Workload, tokens: int) -> float:
    if not work.experts or not work.routed_bytes:
        return work.body_bytes
    touched = experts_touched(work.experts, work.experts_used, tokens) / work.experts
    return work.body_bytes - work.routed_bytes * (1 - touched)


def _draft_bytes(work: Workload, depth: int, batch: int, drafted: int) -> float:
    """One pass of the drafter per drafted token, through the output head it shares; then llama.cpp's catch-up."""
    if not drafted:
        return 0.0
    layer = work.draft_bytes + batch * depth * work.draft_kv_token_bytes
    head = work.head_bytes if work.draft_reads_head else 0
    return drafted * (layer + head) + (layer if work.catches_up else 0.0)


def _compute_s(work: Workload, hardware: Hardware, *, tokens: int) -> float | None:
    if hardware.flops is None or not work.active_parameters:
        return None
    return 2 * work.active_parameters * tokens / (hardware.flops * hardware.cards)
