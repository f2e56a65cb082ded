"""What is to be planned: an engine, devices and settings, resolved from a variant or from flags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from gearshift.artifacts.facts import ModelFacts, Rope
from gearshift.domain.variant import EngineKind, Speculation
from gearshift.planner.calibration import Calibration

DeviceKind = Literal["cuda", "cpu"]
Split = Literal["none", "layer", "tensor"]


WHOLE_WINDOW = 0  # as a context: what the model was trained for, and no shortening (an explicit llama.cpp -c 0)


@dataclass(frozen=True, slots=True)
class PlannedDevice:
    """A device to place on; ``total_bytes`` None = unknown, then fit is unknown too."""

    id: str
    total_bytes: int | None
    name: str = field(default="", compare=False)  # as its driver says it; some defaults of vLLM depend on it


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """Everything a plan depends on beside the model. None = that engine version's own default."""

    engine: EngineKind
    devices: tuple[PlannedDevice, ...]
    version: str | None = None  # None = the newest this planner knows
    device_kind: DeviceKind = "cuda"
    split: Split = "layer"  # llama.cpp; vLLM always splits tensors
    shares: tuple[float, ...] | None = None  # llama.cpp --tensor-split
    gpu_layers: int | None = None  # llama.cpp -ngl; None = all
    context: int | None = None
    positions: int | None = None  # the model's own length, where an override states another
    rope: Rope | None = None  # scaling of positions asked for beside the file's own
    longer_allowed: bool = False  # vLLM's VLLM_ALLOW_LONG_MAX_MODEL_LEN
    kv_dtype: str | None = None  # llama.cpp: "q8_0", or "K,V"
    draft_kv_dtype: str | None = None  # llama.cpp -ctkd/-ctvd
    kv_bytes: int | None = None  # vLLM: pool per GPU
    memory_share: float | None = None  # vLLM --gpu-memory-utilization
    dtype: str | None = None  # activations, where the user overrides the model's
    parallel: int | None = None  # slots (llama.cpp), max-num-seqs (vLLM)
    unified_kv: bool | None = None  # llama.cpp -kvu
    caches_on_host: bool = False  # llama.cpp -nkvo
    overrides: bool = False  # llama.cpp -ot, -ncmoe and the like: some tensors stay on the host
    full_sliding_cache: bool = False  # llama.cpp --swa-full
    batch: int = 2048  # llama.cpp -b
    ubatch: int = 512  # llama.cpp -ub
    prompt_cache: int | None = None  # llama.cpp -cram in bytes; below 0 = no limit, None = that build's default
    ram_bytes: int | None = None  # of the host beside the cards; None = not known
    checkpoints: int = 32  # llama.cpp -ctxcp
    checkpoint_spacing: int = 8192  # llama.cpp -cms, tokens
    max_num_batched_tokens: int | None = None
    block_size: int | None = None
    cache_mode: str | None = None  # vLLM --mamba-cache-mode
    state_dtype: str | None = None  # vLLM --mamba-ssm-cache-dtype
    conv_dtype: str | None = None  # vLLM --mamba-cache-dtype
    prefix_caching: bool | None = None
    async_scheduling: bool | None = None
    eager: bool = False  # vLLM --enforce-eager
    text_only: bool = False  # vLLM --language-model-only
    speculation: Speculation | None = None
    draft: ModelFacts | None = None  # facts of a separate draft model
    any_draft_vocabulary: bool = False  # vLLM's use_heterogeneous_vocab
    projector_bytes: int = 0  # llama.cpp mmproj weights
    other_bytes: Mapping[str, int] = field(default_factory=dict)  # held by other processes, by device id
    calibration: Calibration | None = None

    @property
    def drafted(self) -> int:
        """Tokens drafted per step, 0 without speculation; unnamed it is llama.cpp's 3 or vLLM's one per MTP layer."""
        if self.speculation is None:
            return 0
        if self.speculation.tokens is not None:
            return self.speculation.tokens
        return 3 if self.engine == "llama.cpp" else 1

    @property
    def built_in_draft(self) -> bool:
        """Whether the model's own multi-token-prediction head drafts."""
        return self.speculation is not None and is_mtp(self.speculation.method)

    @property
    def draft_unknown(self) -> bool:
        """Whether a separate draft model is asked for whose weights are not at hand."""
        asked = self.speculation is not None and self.speculation.draft is not None
        return asked and (self.draft is None or not self.draft.weights_known)


def is_mtp(method: str) -> bool:
    """``mtp`` under any of its names: llama.cpp's draft-mtp, vLLM's deprecated qwen3_5_mtp and the like."""
    return method in {"mtp", "draft-mtp"} or method.endswith("_mtp")
