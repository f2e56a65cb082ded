"""`ModelFacts`: everything a model's files say that memory and speed depend on. Values only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

LayerKind = Literal["full", "sliding", "latent", "recurrent", "none"]
TensorRole = Literal["body", "embedding", "head", "mtp", "vision"]
RecurrentKind = Literal["delta", "mamba"]
FileFormat = Literal["gguf", "safetensors", "config"]


@dataclass(frozen=True, slots=True)
class Layer:
    """One decoder layer as a cache sees it. ``latent`` is MLA; ``none`` keeps nothing between tokens.

    ``kv_heads``, ``key_dim`` and ``value_dim`` are 0 where the layer holds no attention cache. A ``latent``
    layer has one head whose ``key_dim`` is the compressed rank plus the rotary part and no separate values.
    """

    kind: LayerKind
    kv_heads: int = 0
    key_dim: int = 0
    value_dim: int = 0

    @property
    def kv_elements(self) -> int:
        """Cache elements per token: keys and values of all heads."""
        return self.kv_heads * (self.key_dim + self.value_dim)


@dataclass(frozen=True, slots=True)
class Recurrent:
    """Shape of one recurrent layer's state for one sequence (Gated DeltaNet, Mamba, KDA), in elements."""

    conv_kernel: int  # the state keeps conv_kernel - 1 past positions
    conv_width: int  # elements of one position: GDN 2 * key_dim * key_heads + value_dim * value_heads
    state_elements: int  # GDN value_heads * value_dim * key_dim
    state_dtype: str | None = None  # what the config asks for the state; None = the engine's own rule
    kind: RecurrentKind = "delta"
    heads: tuple[int, ...] = field(default=(), compare=False)  # counts that tensor parallel ranks must divide

    def conv_elements(self, extra: int = 0) -> int:
        """The convolution's window over the last tokens, ``extra`` positions longer with speculation."""
        return (self.conv_kernel - 1 + extra) * self.conv_width


@dataclass(frozen=True, slots=True)
class Experts:
    """Mixture of experts: ``count`` routed experts of which a token uses ``used``; 0 shared = none."""

    count: int
    used: int
    shared: int = 0
    ffn: int | None = None  # width of one routed expert
    routed_bytes: int = 0  # bytes of all routed expert weights, 0 where tensors are not at hand


@dataclass(frozen=True, slots=True)
class TensorGroup:
    """All tensors of one role and one type: ``("body", "Q4_K")`` and the bytes they hold."""

    role: TensorRole
    type: str
    count: int
    bytes: int
    elements: int


@dataclass(frozen=True, slots=True)
class ModelFile:
    """One file of a model and its size on disk, bytes."""

    path: Path
    bytes: int


@dataclass(frozen=True, slots=True)
class MtpFacts:
    """The multi-token-prediction head: promised by the metadata, and what of it the files hold.

    ``complete`` is None where no tensors are at hand to tell. ``missing`` names what was looked for in vain,
    ``types`` the tensor types of what is there (its precision).
    """

    layers: int
    complete: bool | None
    missing: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a GGUF file says of its tokenizer beside the vocabulary's length; None = it leaves it to the engine."""

    kind: str | None = None  # tokenizer.ggml.model: "gpt2", "llama", ...
    bos: int | None = None
    eos: int | None = None
    adds_bos: bool | None = None
    adds_eos: bool | None = None


@dataclass(frozen=True, slots=True)
class Rope:
    """How rotary positions are stretched beyond what was trained. None = not said.

    ``kind`` is the file's own word: "yarn", "linear", "dynamic", "llama3", "longrope"...; ``original`` the tokens
    before scaling.
    """

    kind: str | None
    factor: float | None = None
    original: int | None = None


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """A model as its files describe it. Lengths in tokens, sizes in bytes; None = the files do not say.

    ``layers`` are the decoder layers a plain token runs through, ``mtp_layers`` those of the draft head.
    """

    format: FileFormat
    family: str  # GGUF architecture ("qwen35") or the config's first architecture ("Qwen3ForCausalLM")
    layers: tuple[Layer, ...]
    hidden: int
    heads: int
    vocab: int | None
    context_train: int | None
    dtype: str  # of activations and of an unquantized KV cache: "bfloat16", "float16", "float32"
    ffn: int | None = None
    window: int | None = None  # sliding attention's length
    rope: Rope | None = None  # None = positions as they were trained
    mtp_layers: tuple[Layer, ...] = ()
    recurrent: Recurrent | None = None
    experts: Experts | None = None
    mtp: MtpFacts | None = None
    tensors: tuple[TensorGroup, ...] = ()
    layer_bytes: tuple[int, ...] = ()  # weights of each layer in file order, MTP blocks last
    tied_head: bool = False  # the embedding doubles as the output head
    vision: bool = False
    quantization: str | None = None
    files: tuple[ModelFile, ...] = ()
    unknown_kinds: tuple[str, ...] = ()  # layer types that are counted as full attention for want of better
    missing_files: tuple[str, ...] = field(default=())  # named by an index or a split, not on disk
    tokens: Tokens | None = None  # of a GGUF file
    reads_hidden: int | None = None  # width of the target's hidden states that an EAGLE, DFlash or DSpark drafter reads
    stated_bytes: int | None = None  # the weights' size as somebody said it, where the files are not at hand
    misshapen: tuple[str, ...] = ()  # attention tensors that are not of the shape the config makes an engine build

    def bytes_of(self, roles: Iterable[TensorRole]) -> int:
        """Tensor bytes of the given roles; 0 where no tensors are at hand."""
        wanted = frozenset(roles)
        return sum(group.bytes for group in self.tensors if group.role in wanted)

    def count(self, kind: LayerKind) -> int:
        """How many decoder layers are of this kind, the draft head left out."""
        return sum(layer.kind == kind for layer in self.layers)

    @property
    def hybrid(self) -> bool:
        return self.recurrent is not None and self.count("recurrent") > 0

    @property
    def keeps_anything(self) -> bool:
        """Whether some layer keeps a cache or a state between tokens; an encoder's do not."""
        return any(layer.kind != "none" for layer in self.layers)

    @property
    def weights_known(self) -> bool:
        """Whether every file of the weights is here; of a part of them nothing can be said of the whole."""
        return bool(self.tensors) and not self.missing_files

    @property
    def size_known(self) -> bool:
        """Whether the weights have a size, from their files or as stated."""
        return self.weights_known or self.stated_bytes is not None
