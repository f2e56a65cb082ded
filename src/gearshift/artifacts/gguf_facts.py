"""From GGUF headers to `ModelFacts`: one file, or all parts of a split one."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from gearshift.artifacts.damage import FETCH_ALL, NO_DECODER, fail
from gearshift.artifacts.drafter_facts import reads_hidden_states
from gearshift.artifacts.facts import Experts, ModelFacts, ModelFile, MtpFacts, Rope, TensorGroup, TensorRole, Tokens
from gearshift.artifacts.gguf import GgufHeader, GgufTensor, read_gguf
from gearshift.artifacts.gguf_layers import decoder_layers, recurrent_shape
from gearshift.artifacts.gguf_metadata import Hyperparameters
from gearshift.artifacts.source import ByteSource, open_source

_PART = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")
_BLOCK = re.compile(r"blk\.(\d+)\.")
_ROUTED_EXPERTS = re.compile(r"\.ffn_\w+_exps\.")
_VISION_PREFIXES = ("v.", "mm.", "a.", "resampler.")
_FILE_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S", 12: "Q3_K_M",
    13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K", 25: "IQ4_NL", 30: "IQ4_XS",
    32: "BF16", 38: "MXFP4",
}  # fmt: skip


def part_names(name: str) -> tuple[str, ...]:
    """The names of all parts of a split file in order; just ``name`` when it is whole."""
    match = _PART.fullmatch(name)
    if match is None:
        return (name,)
    count = int(match["count"])
    return tuple(f"{match['stem']}-{number:05d}-of-{count:05d}.gguf" for number in range(1, count + 1))


def gguf_parts(path: Path) -> tuple[Path, ...]:
    """All parts of a split file in order, present or not; just ``path`` when it is whole."""
    return tuple(path.with_name(name) for name in part_names(path.name)) if path.name else (path,)


def read_gguf_model(path: Path) -> ModelFacts:
    """Facts of a GGUF model with all its parts. Raises GearshiftError for a damaged or truncated part."""
    first = gguf_parts(path)[0]
    if first != path and not first.exists():
        fail(path, f"{first.name} is not here, and only the first part says what the model is", hint=FETCH_ALL)
    present = [part for part in gguf_parts(path) if part.exists() or part == path]
    headers = [_read_part(part) for part in present]
    missing = tuple(part.name for part in gguf_parts(path) if part not in present)
    files = tuple(ModelFile(part, part.stat().st_size) for part in present)
    return gguf_facts(headers, name=str(path), files=files, missing_files=missing)


def read_projector_bytes(path: Path) -> int:
    """Weights of an image projector (mmproj), which is a GGUF file without decoder layers. Raises GearshiftError."""
    return sum(tensor.bytes for tensor in _read_part(path).tensors)


def gguf_facts(
    headers: Sequence[GgufHeader],
    *,
    name: str,
    files: tuple[ModelFile, ...] = (),
    missing_files: tuple[str, ...] = (),
) -> ModelFacts:
    """Facts from headers already walked, first part first. Pure."""
    params = Hyperparameters(headers[0], name)
    tensors = tuple(tensor for header in headers for tensor in header.tensors)
    layers, draft_layers = decoder_layers(params)
    if not params.number("attention.head_count") and not any(layer.kind == "recurrent" for layer in layers):
        fail(name, f"{params.family}.attention.head_count is missing or 0, and no layer is recurrent", hint=NO_DECODER)
    groups = _grouped(tensors, first_draft=len(layers))
    return ModelFacts(
        format="gguf",
        family=params.family,
        layers=layers,
        mtp_layers=draft_layers,
        hidden=params.number("embedding_length"),
        heads=params.number("attention.head_count"),
        ffn=params.number("feed_forward_length") or None,
        vocab=params.number("vocab_size") or headers[0].lengths.get("tokenizer.ggml.tokens"),
        context_train=params.number("context_length") or None,
        dtype="float16",
        window=params.number("attention.sliding_window") or None,
        rope=_rope(params),
        recurrent=recurrent_shape(params),
        experts=_experts(params, tensors),
        mtp=_mtp(params, tensors, len(draft_layers), groups),
        tensors=groups,
        layer_bytes=_layer_bytes(tensors, params.blocks),
        tied_head=bool(tensors) and not any(tensor.name == "output.weight" for tensor in tensors),
        vision=any(_role(tensor.name, len(layers)) == "vision" for tensor in tensors),
        quantization=_quantization(headers[0]),
        files=files,
        missing_files=missing_files,
        tokens=_tokens(headers[0]),
        reads_hidden=_target_width(params),
    )


def _read_part(path: Path) -> GgufHeader:
    with open_source(path) as source:
        return whole_header(source)


def whole_header(source: ByteSource) -> GgufHeader:
    """The header of a file that is as long as it says. Raises GearshiftError for a damaged or truncated one."""
    header = read_gguf(source)
    if header.tensors and header.end > source.size:
        fail(source.name, f"the tensors end at byte {header.end}, the file at byte {source.size}")
    return header


def _role(name: str, first_draft: int) -> TensorRole:
    if name.startswith(("token_embd.", "per_layer_token_embd.", "position_embd.")):
        return "embedding"
    if name.startswith("output."):
        return "head"
    if name.startswith(_VISION_PREFIXES):
        return "vision"
    block = _BLOCK.match(name)
    return "mtp" if block and int(block[1]) >= first_draft else "body"


def _grouped(tensors: Iterable[GgufTensor], *, first_draft: int) -> tuple[TensorGroup, ...]:
    grouped: defaultdict[tuple[TensorRole, str], list[GgufTensor]] = defaultdict(list)
    for tensor in tensors:
        grouped[_role(tensor.name, first_draft), tensor.type].append(tensor)
    return tuple(
        TensorGroup(role, kind, len(members), sum(t.bytes for t in members), sum(t.elements for t in members))
        for (role, kind), members in grouped.items()
    )


def _layer_bytes(tensors: Sequence[GgufTensor], blocks: int) -> tuple[int, ...]:
    sums = [0] * blocks
    for tensor in tensors:
        block = _BLOCK.match(tensor.name)
        if block and int(block[1]) < blocks:
            sums[int(block[1])] += tensor.bytes
    return tuple(sums) if tensors else ()


def _rope(params: Hyperparameters) -> Rope | None:
    kind, factor = params.find("rope.scaling.type"), params.find("rope.scaling.factor")
    if not isinstance(kind, str) or kind == "none":
        return None
    known = factor if isinstance(factor, float | int) and math.isfinite(factor) else None
    return Rope(kind, known, params.number("rope.scaling.original_context_length") or None)


def _experts(params: Hyperparameters, tensors: Iterable[GgufTensor]) -> Experts | None:
    if not params.number("expert_count"):
        return None
    return Experts(
        count=params.number("expert_count"),
        used=params.number("expert_used_count"),
        shared=params.number("expert_shared_count"),
        ffn=params.number("expert_feed_forward_length") or None,
        routed_bytes=sum(tensor.bytes for tensor in tensors if _ROUTED_EXPERTS.search(tensor.name)),
    )


def _mtp(
    params: Hyperparameters, tensors: Sequence[GgufTensor], drafts: int, groups: Iterable[TensorGroup]
) -> MtpFacts | None:
    """Both the key and the tensors count: stripped files and overrides leave one without the other."""
    if not drafts:
        return None
    types = tuple(sorted({group.type for group in groups if group.role == "mtp"}))
    if not tensors:
        return MtpFacts(drafts, None)
    needed = f"blk.{params.blocks - 1}.nextn.eh_proj.weight"
    missing = () if any(tensor.name == needed for tensor in tensors) else (needed,)
    return MtpFacts(drafts, not missing, missing, types)


def _quantization(header: GgufHeader) -> str | None:
    number = header.metadata.get("general.file_type")
    return _FILE_TYPES.get(number) if isinstance(number, int) else None


def _tokens(header: GgufHeader) -> Tokens:
    kind, bos, eos, adds_bos, adds_eos = (
        header.metadata.get(f"tokenizer.ggml.{key}")
        for key in ("model", "bos_token_id", "eos_token_id", "add_bos_token", "add_eos_token")
    )
    return Tokens(
        kind if isinstance(kind, str) else None,
        bos if isinstance(bos, int) else None,
        eos if isinstance(eos, int) else None,
        adds_bos if isinstance(adds_bos, bool) else None,
        adds_eos if isinstance(adds_eos, bool) else None,
    )


def _target_width(params: Hyperparameters) -> int | None:
    """Width of the hidden states a drafter reads (llama.cpp's eagle3 says it, dflash takes its own); None = none."""
    if not reads_hidden_states(params.family):
        return None
    return params.number("target_hidden_size") or params.number("embedding_length") or None
