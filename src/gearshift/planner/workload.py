"""From a model's facts and a request to the bytes one decode step moves."""

from __future__ import annotations

from gearshift.artifacts.facts import Layer, LayerKind, ModelFacts, TensorRole
from gearshift.planner.ceiling import Hardware, Workload
from gearshift.planner.gpus import Gpu
from gearshift.planner.kv_types import dtype_bytes
from gearshift.planner.llamacpp_caches import draft_types, state_row_bytes, target_types
from gearshift.planner.request import PlanRequest
from gearshift.planner.vllm import loaded_bytes
from gearshift.planner.vllm_blocks import activation_dtype, layer_token_bytes, target_token_bytes

_PACKED_ELEMENTS = frozenset({"U8", "I32", "I8"})  # several weights in one element, so elements are no parameters


def workload_of(request: PlanRequest, facts: ModelFacts) -> Workload | None:
    """The step's bytes over all cards together; None where the weights, or a drafter's, are not at hand."""
    if not facts.weights_known or request.draft_unknown:
        return None
    llamacpp = request.engine == "llama.cpp"
    experts, body = facts.experts, _read_bytes(request, facts, "body")
    routed = experts.routed_bytes * body // max(facts.bytes_of(("body",)), 1) if experts else 0
    return Workload(
        body_bytes=body,
        head_bytes=_read_bytes(request, facts, "embedding" if facts.tied_head else "head"),
        kv_token_bytes=_token_bytes(request, facts, {"full", "latent"}),
        sliding_token_bytes=_token_bytes(request, facts, {"sliding"}),
        window=facts.window or 0,
        state_bytes=facts.count("recurrent") * _state_bytes(request, facts),
        draft_bytes=_draft_bytes(request, facts),
        draft_reads_head=request.built_in_draft,
        draft_kv_token_bytes=_draft_token_bytes(request, facts),
        catches_up=llamacpp and request.built_in_draft,
        active_parameters=_active_parameters(facts),
        routed_bytes=routed,
        experts=experts.count if experts else 0,
        experts_used=experts.used if experts else 0,
    )


def hardware_of(request: PlanRequest, gpu: Gpu) -> Hardware:
    """The cards that work at once: all of them with tensor parallel, one with layer split."""
    together = request.engine == "vllm" or request.split == "tensor"
    return Hardware(gpu.bandwidth, gpu.flops, len(request.devices) if together else 1)


def _read_bytes(request: PlanRequest, facts: ModelFacts, *roles: TensorRole) -> int:
    """Tensor bytes as they lie in memory: llama.cpp runs what the file has, vLLM casts what is not quantized."""
    return facts.bytes_of(roles) if request.engine == "llama.cpp" else loaded_bytes(request, facts, roles)


def _draft_bytes(request: PlanRequest, facts: ModelFacts) -> int:
    """What one drafted token reads beside a shared output head; nothing for n-grams, which are looked up."""
    if request.built_in_draft:
        return _read_bytes(request, facts, "mtp")
    if request.draft is None:
        return 0
    return _read_bytes(request, request.draft, "body", "embedding" if request.draft.tied_head else "head")


def _draft_token_bytes(request: PlanRequest, facts: ModelFacts) -> float:
    if request.built_in_draft:
        return sum(_layer(layer, request, facts, draft=True) for layer in facts.mtp_layers)
    model = request.draft
    return sum(_layer(layer, request, model, draft=True) for layer in model.layers) if model else 0.0


def _token_bytes(request: PlanRequest, facts: ModelFacts, kinds: set[LayerKind]) -> float:
    if request.engine == "llama.cpp":
        return sum(_layer(layer, request, facts) for layer in facts.layers if layer.kind in kinds)
    return float(sum(size for layer, size in target_token_bytes(request, facts, 1) if layer.kind in kinds))


def _layer(layer: Layer, request: PlanRequest, facts: ModelFacts, *, draft: bool = False) -> float:
    if request.engine == "llama.cpp":
        keys, values = draft_types(request) if draft else target_types(request)
        return float(layer.kv_heads * (layer.key_dim * keys + layer.value_dim * values))
    return float(layer_token_bytes(layer, request, facts, 1))


def _state_bytes(request: PlanRequest, facts: ModelFacts) -> int:
    """One layer's state of one sequence: float32 in llama.cpp; in vLLM the convolution is in the model's type."""
    if facts.recurrent is None:
        return 0
    if request.engine == "llama.cpp":
        return state_row_bytes(facts)
    conv = dtype_bytes(activation_dtype(request, facts)) or 2
    state = dtype_bytes(request.state_dtype or facts.recurrent.state_dtype or "") or conv
    return facts.recurrent.conv_elements() * conv + facts.recurrent.state_elements * state


def _active_parameters(facts: ModelFacts) -> float:
    """Weights that one token multiplies with; 0 where packed types hide how many there are."""
    head: TensorRole = "embedding" if facts.tied_head else "head"
    groups = [group for group in facts.tensors if group.role in {"body", head}]
    if any(group.type in _PACKED_ELEMENTS for group in groups):
        return 0.0
    total = sum(group.elements for group in groups)
    experts = facts.experts
    if experts is None or not experts.routed_bytes:
        return float(total)
    body = facts.bytes_of(("body",))
    routed = sum(group.elements for group in groups if group.role == "body") * experts.routed_bytes / max(body, 1)
    return total - routed * (1 - experts.used / experts.count)
