"""An engine's flags to a variant: neutral fields where there are, `args` for the rest, notes for what is dropped."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gearshift.config.scalars import plain_scalar
from gearshift.domain.variant import EngineKind

FlagValue = str | bool | list[str]

_ALL_LAYERS = 99  # people write 99 or 999 for "every layer"
_CUDA_NAME = re.compile(r"CUDA(\d+)")
_SAMPLING = {
    "temp": "temperature", "top-p": "top_p", "top-k": "top_k", "min-p": "min_p",
    "presence-penalty": "presence_penalty", "frequency-penalty": "frequency_penalty",
    "repeat-penalty": "repeat_penalty", "n-predict": "max_tokens", "seed": "seed",
}  # fmt: skip
_SPEC_TYPES = {"draft-mtp": "mtp", "mtp": "mtp", "ngram-mod": "ngram", "draft-simple": "draft"}
_LOAD_MODES = {"no-mmap": "none", "mmap": "mmap", "mlock": "mlock", "direct-io": "dio"}


@dataclass(slots=True)
class Draft:
    """A variant in the making. ``flags`` are consumed one by one; what is left becomes ``args``."""

    kind: EngineKind
    flags: dict[str, FlagValue]
    fields: dict[str, object] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def take(self, name: str) -> FlagValue | None:
        return self.flags.pop(name, None)

    def take_text(self, name: str) -> str | None:
        """A flag's value, the last one where it was given several times."""
        value = self.take(name)
        if isinstance(value, list):
            return value[-1]
        return value if isinstance(value, str) else None

    def move(self, name: str, key: str) -> None:
        """A flag whose value is a field as it stands."""
        if (value := self.take_text(name)) is not None:
            self.fields[key] = plain_scalar(value)

    def drop(self, name: str, note: str | None = None) -> None:
        if self.take(name) is not None and note:
            self.notes.append(note)


def native_variant(kind: EngineKind, flags: Mapping[str, FlagValue]) -> Draft:
    """The variant that a command line of llama-server or vLLM amounts to; flags under their canonical names."""
    draft = Draft(kind, dict(flags))
    for step in _STEPS[kind]:
        step(draft)
    if draft.flags:
        draft.fields["args"] = {name: _argument(value) for name, value in draft.flags.items()}
    return draft


def _argument(value: FlagValue) -> object:
    if isinstance(value, list):
        return [plain_scalar(item) for item in value]
    return plain_scalar(value) if isinstance(value, str) else value


def _ours(draft: Draft) -> None:
    """What Gearshift sets at each start."""
    for name in ("host", "port", "alias", "served-model-name", "metrics"):
        draft.drop(name)
    for name in ("api-key", "api-key-file"):
        draft.drop(name, f"{name} of the engine is dropped: engines listen on loopback, clients' keys go to api_keys:")


def _llamacpp_weights(draft: Draft) -> None:
    draft.move("model", "weights")
    repository = draft.take_text("hf-repo")
    if repository and "weights" not in draft.fields:
        draft.fields["weights"] = repository


def _llamacpp_context(draft: Draft) -> None:
    if draft.flags.get("ctx-size") == "0":
        draft.notes.append("-c 0 (what the model was trained for) is kept as a flag; context: plans better")
        return
    draft.move("ctx-size", "context")


def _llamacpp_slots(draft: Draft) -> None:
    if draft.flags.get("parallel") in {"-1", "auto"}:
        draft.drop("parallel")
    draft.move("parallel", "parallel")


def _llamacpp_cache(draft: Draft) -> None:
    keys, values = draft.take_text("cache-type-k"), draft.take_text("cache-type-v")
    if keys or values:
        keys, values = keys or "f16", values or "f16"  # f16 is llama.cpp's default for either
        draft.fields["kv_dtype"] = keys if keys == values else f"{keys},{values}"


def _llamacpp_layers(draft: Draft) -> None:
    layers = draft.flags.get("gpu-layers")
    if isinstance(layers, str) and (
        layers in {"all", "auto", "-1"} or (layers.isdigit() and int(layers) >= _ALL_LAYERS)
    ):
        draft.drop("gpu-layers")


def _llamacpp_devices(draft: Draft) -> None:
    devices = draft.flags.get("device")
    if isinstance(devices, list):
        devices = ",".join(devices)
    names = devices.split(",") if isinstance(devices, str) else []
    found = [_CUDA_NAME.fullmatch(name.strip()) for name in names]
    if names and all(found):
        draft.fields["gpus"] = [int(match[1]) for match in found if match]
        draft.drop("device", "gpus: counts as nvidia-smi does; the old file counted CUDA devices, which may differ")


def _llamacpp_speculation(draft: Draft) -> None:
    method = _SPEC_TYPES.get(str(draft.flags.get("spec-type", "")))
    model = draft.flags.get("spec-draft-model")
    if method is None and "spec-type" not in draft.flags and isinstance(model, str):
        method = "draft"
    if method is None or (method != "draft" and model):
        return
    draft.drop("spec-type")
    speculation: dict[str, object] = {"method": method}
    if tokens := draft.take_text("spec-draft-n-max") or draft.take_text("draft-max"):
        speculation["tokens"] = plain_scalar(tokens)
    if weights := draft.take_text("spec-draft-model"):
        speculation["draft"] = weights
    draft.fields["speculation"] = speculation


def _llamacpp_sampling(draft: Draft) -> None:
    sampling = {key: plain_scalar(value) for flag, key in _SAMPLING.items() if (value := draft.take_text(flag))}
    if sampling:
        draft.fields["sampling"] = sampling
        draft.notes.append("sampling flags became sampling: they are set in each request that is silent about them")


def _llamacpp_loading(draft: Draft) -> None:
    for name, mode in _LOAD_MODES.items():
        if draft.take(name) is not None:
            draft.flags["load-mode"] = mode
            draft.notes.append(f"{name} became load-mode: {mode}; builds before June 2026 know the old name only")


def _llamacpp_probe(draft: Draft) -> None:
    if draft.flags.get("rerank"):
        draft.fields["probe"] = "rerank"
    elif draft.flags.get("embedding"):
        draft.fields["probe"] = "embedding"


def _template(flag: str) -> Callable[[Draft], None]:
    def move_template(draft: Draft) -> None:
        value = draft.flags.get(flag)
        if isinstance(value, str) and (value.endswith((".jinja", ".txt")) or "/" in value):
            draft.move(flag, "template")

    return move_template


def _vllm_fields(draft: Draft) -> None:
    draft.move("model", "weights")
    draft.move("max-model-len", "context")
    draft.move("kv-cache-dtype", "kv_dtype")
    draft.move("kv-cache-memory-bytes", "kv_bytes")
    draft.move("max-num-seqs", "parallel")
    if draft.take("enable-sleep-mode") is not None:
        draft.fields["sleep"] = True


def _vllm_defaults(draft: Draft) -> None:
    """`auto` says nothing."""
    if draft.fields.get("kv_dtype") == "auto":
        del draft.fields["kv_dtype"]
    if draft.fields.get("context") in {"auto", -1}:
        del draft.fields["context"]


def _vllm_gpus(draft: Draft) -> None:
    size = draft.flags.get("tensor-parallel-size")
    spread = {"pipeline-parallel-size", "data-parallel-size"} & draft.flags.keys()
    if isinstance(size, str) and size.isdigit() and int(size) > 0 and not spread:
        draft.drop("tensor-parallel-size")
        draft.fields["gpus"] = list(range(int(size)))


def _vllm_speculation(draft: Draft) -> None:
    """Only what the neutral field can say; a configuration with more keys stays a flag."""
    try:
        config = json.loads(str(draft.flags.get("speculative-config")))
    except ValueError:
        return
    if not isinstance(config, dict) or not config.keys() <= {"method", "num_speculative_tokens", "model"}:
        return
    method = str(config.get("method", "draft_model"))
    neutral = "mtp" if method.endswith("mtp") else {"draft_model": "draft"}.get(method, method)
    if method != neutral and neutral == "mtp":
        draft.notes.append(f"speculation method {method} is written mtp, as vLLM now calls it")
    named = {"method": neutral, "tokens": config.get("num_speculative_tokens"), "draft": config.get("model")}
    draft.fields["speculation"] = {key: value for key, value in named.items() if value is not None}
    draft.drop("speculative-config")


_STEPS: Mapping[EngineKind, tuple[Callable[[Draft], None], ...]] = {
    "llama.cpp": (
        _ours, _llamacpp_weights, _llamacpp_context, _llamacpp_slots, _llamacpp_cache, _llamacpp_layers,
        _llamacpp_devices, _llamacpp_speculation, _llamacpp_sampling, _llamacpp_loading, _llamacpp_probe,
        _template("chat-template-file"),
    ),
    "vllm": (_ours, _vllm_fields, _vllm_defaults, _vllm_gpus, _vllm_speculation, _template("chat-template")),
    "command": (),
}  # fmt: skip
