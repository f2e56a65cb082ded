"""From a Hugging Face model folder, or a lone config.json, to `ModelFacts`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from gearshift.artifacts.drafter_facts import misshapen, target_width
from gearshift.artifacts.facts import Experts, ModelFacts, ModelFile, MtpFacts, TensorGroup, TensorRole
from gearshift.artifacts.hf_config import HfConfig, context_of, draft_layers_of, experts_of, layers_of, rope_of
from gearshift.artifacts.hf_kinds import unknown_kinds
from gearshift.artifacts.hf_recurrent import recurrent_of
from gearshift.artifacts.json_file import read_json
from gearshift.artifacts.safetensors import SafeTensor, read_index, read_safetensors
from gearshift.artifacts.source import open_source

_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")
_ROUTED_EXPERT = re.compile(r"\.experts\.")
_VISION = re.compile(
    r"(?:^|\.)(?:visual|vision_tower|vision_model|multi_modal_projector|audio_tower|embed_vision|embed_audio)\."
)
_EMBEDDINGS = ("embed_tokens", "tok_embeddings", ".wte.", "embed_in.", "backbone.embeddings.")
_HEADS = ("lm_head.", "embed_out.")


def read_hf_model(folder: Path) -> ModelFacts:
    """Facts of a model folder. A folder without weights still plans its cache. Raises GearshiftError."""
    config = HfConfig(read_json(folder / "config.json"), str(folder / "config.json"))
    names = _weight_files(folder)
    present = [folder / name for name in names if (folder / name).exists()]
    tensors = tuple(tensor for path in present for tensor in _read_file(path))
    return hf_facts(
        config,
        tensors,
        indexed=_index(folder),
        files=tuple(ModelFile(path, path.stat().st_size) for path in present),
        missing_files=tuple(name for name in names or _pickled(folder) if not (folder / name).exists()),
    )


def read_config(path: Path) -> ModelFacts:
    """Facts of a lone config file: everything but the weights. Raises GearshiftError."""
    return hf_facts(HfConfig(read_json(path), str(path)), ())


def hf_facts(
    config: HfConfig,
    tensors: tuple[SafeTensor, ...],
    *,
    indexed: Mapping[str, str] | None = None,
    files: tuple[ModelFile, ...] = (),
    missing_files: tuple[str, ...] = (),
) -> ModelFacts:
    """Facts from a parsed config and the tensors of all weight files. Pure."""
    layers, drafts = layers_of(config), draft_layers_of(config)
    groups = _grouped(tensors, first_draft=len(layers))
    return ModelFacts(
        format="safetensors" if tensors else "config",
        family=config.family,
        layers=layers,
        mtp_layers=drafts,
        hidden=config.needed("hidden_size"),
        heads=config.needed("num_attention_heads"),
        ffn=config.number("intermediate_size") or None,
        vocab=config.number("vocab_size") or None,
        context_train=context_of(config),
        dtype=config.dtype,
        window=config.window,
        rope=rope_of(config),
        recurrent=recurrent_of(config),
        experts=_experts(config, tensors),
        mtp=_mtp(tensors, indexed or {}, len(drafts), groups, len(layers)),
        tensors=groups,
        layer_bytes=_layer_bytes(tensors, len(layers)),
        tied_head=config.find("tie_word_embeddings") is True or _lacks_a_head(groups),
        vision=isinstance(config.document.get("vision_config"), Mapping),
        quantization=_quantization(config),
        files=files,
        missing_files=missing_files,
        unknown_kinds=unknown_kinds(config),
        reads_hidden=target_width(config),
        misshapen=misshapen(tensors, layers, config.needed("num_attention_heads"))
        if recurrent_of(config) is None
        else (),
    )


def _read_file(path: Path) -> tuple[SafeTensor, ...]:
    with open_source(path) as source:
        return read_safetensors(source)


def _index(folder: Path, ending: str = "safetensors") -> Mapping[str, str]:
    merged: dict[str, str] = {}
    for path in sorted(folder.glob(f"*.{ending}.index.json")):
        merged |= read_index(path)
    return merged


def _pickled(folder: Path) -> list[str]:
    """Files that an index of ``.bin`` files names: nothing of them is read, but each has to be there."""
    return sorted(set(_index(folder, "bin").values()))


def _weight_files(folder: Path) -> list[str]:
    """Files the index names, else every safetensors file that lies there (a consolidated copy left out)."""
    named = sorted(set(_index(folder).values()))
    return named or sorted(
        path.name for path in folder.glob("*.safetensors") if not path.name.startswith("consolidated")
    )


def _role(name: str, first_draft: int) -> TensorRole:
    if _VISION.search(name):
        return "vision"
    if name.startswith("mtp.") or ".mtp." in name or _is_draft_layer(name, first_draft):
        return "mtp"
    if any(part in name for part in _EMBEDDINGS):
        return "embedding"
    return "head" if any(part in name for part in _HEADS) or name == "output.weight" else "body"


def _is_draft_layer(name: str, first_draft: int) -> bool:
    layer = _LAYER.search(name)
    return layer is not None and int(layer[1]) >= first_draft


def _grouped(tensors: Iterable[SafeTensor], *, first_draft: int) -> tuple[TensorGroup, ...]:
    grouped: defaultdict[tuple[TensorRole, str], list[SafeTensor]] = defaultdict(list)
    for tensor in tensors:
        grouped[_role(tensor.name, first_draft), tensor.type].append(tensor)
    return tuple(
        TensorGroup(role, kind, len(members), sum(t.bytes for t in members), sum(t.elements for t in members))
        for (role, kind), members in grouped.items()
    )


def _layer_bytes(tensors: Iterable[SafeTensor], count: int) -> tuple[int, ...]:
    sums = [0] * count
    for tensor in tensors:
        layer = _LAYER.search(tensor.name)
        if layer and int(layer[1]) < count and _role(tensor.name, count) == "body":
            sums[int(layer[1])] += tensor.bytes
    return tuple(sums) if any(sums) else ()


def _mtp(
    tensors: tuple[SafeTensor, ...],
    indexed: Mapping[str, str],
    drafts: int,
    groups: Iterable[TensorGroup],
    first_draft: int,
) -> MtpFacts | None:
    """Present in the config, complete in the files: an index may map tensors that no file holds."""
    if not drafts:
        return None
    if not tensors:
        return MtpFacts(drafts, None)
    held = {tensor.name for tensor in tensors if _role(tensor.name, first_draft) == "mtp"}
    promised = {name for name in indexed if _role(name, first_draft) == "mtp"}
    missing = sorted(promised - held)
    if not held:
        missing = missing or ["mtp.fc.weight"]
    types = tuple(sorted({group.type for group in groups if group.role == "mtp"}))
    return MtpFacts(drafts, not missing, tuple(missing), types)


def _lacks_a_head(groups: Iterable[TensorGroup]) -> bool:
    """Whether the embedding must double as the output head: families that always tie it do not say so."""
    roles = {group.role for group in groups}
    return "embedding" in roles and "head" not in roles


def _experts(config: HfConfig, tensors: Iterable[SafeTensor]) -> Experts | None:
    experts = experts_of(config)
    routed = sum(tensor.bytes for tensor in tensors if _ROUTED_EXPERT.search(tensor.name))
    return replace(experts, routed_bytes=routed) if experts else None


def _quantization(config: HfConfig) -> str | None:
    document = config.find("quantization_config", "compression_config")
    if not isinstance(document, Mapping):
        return None
    method = document.get("quant_method") or document.get("quant_algo")
    return str(method) if method else None
