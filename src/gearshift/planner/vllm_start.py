"""One vLLM start with every default filled in, and the reasons for which the engine would refuse it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gearshift.artifacts.facts import ModelFacts
from gearshift.domain.units import GIB
from gearshift.planner.draft_fit import absent_draft, draft_misfits
from gearshift.planner.kv_types import vllm_cache_type_since
from gearshift.planner.ledger import PagedKv, missing_files_note
from gearshift.planner.positions import beyond_vllm, scaled, vllm_default
from gearshift.planner.request import PlanRequest
from gearshift.planner.vllm_blocks import BlockLayout, block_layout
from gearshift.planner.vllm_pool import refusal
from gearshift.planner.vllm_rules import OLDEST, VllmRules, vllm_rules

_MEMORY_SHARE = 0.92
_BIG_CARD, _HUGE_CARD = 70 * GIB, 160 * GIB


@dataclass(frozen=True, slots=True)
class Limits:
    """The scheduler's two limits as the engine resolves them."""

    sequences: int
    batched_tokens: int


@dataclass(frozen=True, slots=True)
class VllmStart:
    """A request resolved against one version's rules and one model."""

    request: PlanRequest
    facts: ModelFacts
    rules: VllmRules
    limits: Limits
    layout: BlockLayout
    context: int

    @property
    def smallest_pool(self) -> int:
        """The pool to pin for one full-length request that also starts: `kv_bytes: auto`.

        Full CUDA graphs need a state block per running sequence, so hybrids get as many blocks as sequences.
        """
        blocks = self.layout.blocks_for(self.context) + 1
        return max(blocks, self._state_blocks) * self.layout.bytes_per_block

    @property
    def accepted_pool(self) -> int:
        """The smallest pool that this version starts with, whether or not a full-length request can then run."""
        blocks = self.layout.blocks_for(self.context) + self.rules.null_block_counts
        return max(blocks, self._state_blocks) * self.layout.bytes_per_block

    @property
    def _state_blocks(self) -> int:
        return self.limits.sequences if self.has_graphs and self.layout.state_groups else 0

    @property
    def memory_share(self) -> float:
        """--gpu-memory-utilization: the user's, else 0.92."""
        return self.request.memory_share if self.request.memory_share is not None else _MEMORY_SHARE

    @property
    def has_graphs(self) -> bool:
        return self.request.device_kind == "cuda" and not self.request.eager


def resolve(request: PlanRequest, facts: ModelFacts) -> VllmStart:
    """Fill in the defaults of the request's version and platform."""
    rules = vllm_rules(request.version)
    context = request.context or vllm_default(request, facts, rules)
    limits = default_limits(request, context)
    layout = _calibrated(request, block_layout(request, facts, rules, batched_tokens=limits.batched_tokens))
    return VllmStart(request, facts, rules, limits, layout, context)


def default_limits(request: PlanRequest, context: int) -> Limits:
    """max_num_seqs and max_num_batched_tokens: the user's, else what engine/arg_utils.py makes of them.

    That is by platform and card; a batch left to the engine is no larger than all sequences of ``context`` tokens.
    """
    sequences, tokens = _usual_limits(request)
    most = (request.parallel or sequences) * context
    batched = request.max_num_batched_tokens or (min(tokens, most) if most else tokens)
    return Limits(request.parallel or min(sequences, batched), batched)


def _usual_limits(request: PlanRequest) -> tuple[int, int]:
    """Sequences and batched tokens: for each rank of a CPU, by the memory of a card, and A100s as small ones."""
    smallest = min((device.total_bytes or 0 for device in request.devices), default=0)
    if request.device_kind == "cpu":
        ranks = max(len(request.devices), 1)
        return 128 * ranks, 2048 * ranks
    if smallest >= _HUGE_CARD:
        return 1024, 16384
    if smallest >= _BIG_CARD and not any("a100" in device.name.lower() for device in request.devices):
        return 1024, 8192
    return 256, 2048


def refusals(start: VllmStart, figures: PagedKv, pool: int | None) -> tuple[str, ...]:
    """Every reason for which the engine would not start, each with its own figures."""
    found = [
        _pool_too_small(start, figures, pool),
        _beyond(start, allowed=False),
        _too_many_sequences(start, figures),
        _block_too_large(start),
        _mode_removed(start),
        _heads_do_not_divide(start),
        _more_sequences_than_tokens(start),
        _type_too_new(start),
        _more_than_the_host_has(start, pool),
        _too_little_free(start),
        _no_draft_head(start),
        *draft_misfits(start.request, start.facts),
    ]
    return tuple(text for text in found if text)


def notes(start: VllmStart) -> tuple[str, ...]:
    """What the plan's figures do not show: doubts about the layout and the files, a draft head that drafts noise."""
    return (*start.layout.notes, *_prefix_notes(start), *_file_notes(start))


def _prefix_notes(start: VllmStart) -> Iterator[str]:
    """Hybrids have blocks of a thousand tokens and more, which decides what a prefix cache is good for."""
    if start.layout.state_groups and start.layout.state_mode == "align":
        yield f"the prefix cache hits in whole blocks of {start.layout.block_size} tokens; a shorter prompt never hits"


def _file_notes(start: VllmStart) -> Iterator[str]:
    if start.facts.missing_files:
        yield missing_files_note(start.facts)
    if not start.facts.keeps_anything:
        yield "it keeps nothing between tokens, so that vLLM makes no pool"
    if start.facts.format == "gguf" and not start.rules.loads_gguf:
        yield "vLLM loads GGUF files up to 0.23 only, later ones with a plugin"
    yield from filter(
        None,
        (
            absent_draft(start.request),
            _beyond(start, allowed=True),
            scaled(start.request, start.facts, context=start.context),
        ),
    )
    mtp = start.facts.mtp
    if start.request.built_in_draft and mtp is not None and mtp.complete is False:
        lost = ", ".join(mtp.missing[:3])
        yield f"the draft head's tensors are not in the files ({lost}): it would load as noise"


def _pool_too_small(start: VllmStart, figures: PagedKv, pool: int | None) -> str | None:
    if pool is None:
        return None
    pinned = start.request.kv_bytes is not None
    return refusal(figures, start.rules, context=start.context, pool=pool, pinned=pinned)


def _beyond(start: VllmStart, *, allowed: bool) -> str | None:
    """A context beyond the model's own: refused, or where that is ``allowed`` by the environment, let through."""
    if start.request.longer_allowed is not allowed:
        return None
    return beyond_vllm(start.request, start.facts, start.rules, context=start.context)


def _no_draft_head(start: VllmStart) -> str | None:
    missing = start.request.built_in_draft and not start.facts.mtp_layers
    return "MTP was asked for, but the model's config names no MTP layers" if missing else None


def _calibrated(request: PlanRequest, layout: BlockLayout) -> BlockLayout:
    """An earlier log's bytes per block replace the arithmetic where the two differ."""
    measured = request.calibration.bytes_per_block if request.calibration else None
    if measured is None or measured == layout.bytes_per_block:
        return layout
    note = "bytes per block come from an earlier start's log"
    return replace(layout, bytes_per_block=measured, exact=False, notes=(*layout.notes, note))


def _too_many_sequences(start: VllmStart, figures: PagedKv) -> str | None:
    wanted, blocks = start.limits.sequences, figures.blocks
    if not (start.has_graphs and start.layout.state_groups) or blocks is None or wanted <= blocks:
        return None
    return (
        f"max_num_seqs ({wanted}) exceeds available Mamba cache blocks ({blocks}): "
        "lower max-num-seqs or enlarge the pool"
    )


def _block_too_large(start: VllmStart) -> str | None:
    block, batched = start.layout.block_size, start.limits.batched_tokens
    if not start.rules.align_limits_block or start.layout.state_mode != "align" or block <= batched:
        return None
    return f"in align mode block_size ({block}) must be <= max_num_batched_tokens ({batched}) up to 0.26"


def _mode_removed(start: VllmStart) -> str | None:
    gone = start.request.cache_mode == "all" and not start.rules.has_all_mode
    return "the mamba cache mode all was removed in 0.32" if gone else None


def _heads_do_not_divide(start: VllmStart) -> str | None:
    return undivided(start.facts, len(start.request.devices))


def undivided(facts: ModelFacts, ranks: int) -> str | None:
    """Which of the model's heads so many tensor parallel ranks do not divide evenly; None where all can be."""
    shared = {layer.kv_heads for layer in facts.layers if layer.kind in {"full", "sliding"}}
    counts = [
        (facts.heads, "attention heads", facts.heads % ranks),
        *((count, "key and value heads", count % ranks if count >= ranks else ranks % count) for count in shared),
        *(
            (count, "linear attention heads", count % ranks)
            for count in (facts.recurrent.heads if facts.hybrid and facts.recurrent else ())
        ),
    ]
    return next(
        (f"tensor parallel size {ranks} does not divide {count} {what}" for count, what, rest in counts if rest), None
    )


def _more_sequences_than_tokens(start: VllmStart) -> str | None:
    sequences, tokens = start.limits.sequences, start.limits.batched_tokens
    if sequences <= tokens:
        return None
    return f"max_num_batched_tokens ({tokens}) must be greater than or equal to max_num_seqs ({sequences})"


def _type_too_new(start: VllmStart) -> str | None:
    kind = start.request.kv_dtype or "auto"
    since = vllm_cache_type_since(kind)
    if since <= max(start.rules.version, OLDEST):
        return None
    return f"vLLM {start.rules.name} has no cache type {kind}: it came with {since[0]}.{since[1]}"


def _more_than_the_host_has(start: VllmStart, pool: int | None) -> str | None:
    """On a CPU the engine asks for the pool's memory after loading and refuses what is not there."""
    total = start.request.devices[0].total_bytes if start.request.devices else None
    if start.request.device_kind != "cpu" or total is None or pool is None or pool <= total:
        return None
    return f"a pool of {pool / GIB:.2f} GiB is more than the {total / GIB:.2f} GiB of host memory: lower kv_bytes"


def _too_little_free(start: VllmStart) -> str | None:
    """The start-up gate: the share of the card has to be free, also when the pool is pinned."""
    share = start.memory_share
    for device in start.request.devices if start.request.device_kind == "cuda" else ():
        others = start.request.other_bytes.get(device.id, 0)
        if device.total_bytes is not None and others and device.total_bytes - others < device.total_bytes * share:
            free, wanted = (device.total_bytes - others) / GIB, device.total_bytes * share / GIB
            return (
                f"free memory on {device.id} ({free:.2f} GiB) is less than the share asked for "
                f"({share:g}, {wanted:.2f} GiB): lower gpu-memory-utilization or free the card"
            )
    return None
