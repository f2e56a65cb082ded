"""Checks of a model's files: there, whole, with the draft head that is asked for, within the trained window."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from gearshift.advice.doctor.case import Case
from gearshift.advice.doctor.check import Check, Registered
from gearshift.advice.doctor.finding import Severity, Sighting
from gearshift.advice.doctor.speculating import drafted, methods, vllm_config, with_mtp
from gearshift.advice.weightless import weightless
from gearshift.artifacts import MtpFacts
from gearshift.domain.device import CPU_DEVICE, Device
from gearshift.domain.units import format_bytes
from gearshift.planner import model_longest, request_for
from gearshift.planner.draft_fit import shape_misfits, vocabulary_misfits

MODEL: list[Check[Case]] = []
_check = Registered(MODEL).add

_MTP_THREAD = "https://github.com/vllm-project/vllm/issues/36331"
_PLAIN = {"BF16", "F16", "F32"}
_FOUR_BITS = ("Q4", "IQ4", "Q3", "IQ3", "Q2", "IQ2", "MXFP4", "NVFP4")
_PACKED = {"U8", "I32"}  # words that hold several weights; the checkpoint says of how many bits
_FEW_BITS = 4
_ON = {"1", "ON", "YES", "TRUE"}  # as huggingface_hub reads a switch
_NAMED = 3  # files or tensors named before the rest is counted
_LONG_DRAFT = 3  # tokens: heads that predict one step ahead were slower beyond this, on both engines
_ANYWHERE = (Device(CPU_DEVICE, None, "", 0),)  # positions are the same on every device
_HEAD_MODULE = "mtp.fc"


def _some(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"


def _mtp(case: Case) -> MtpFacts | None:
    return case.model.mtp if case.model else None


@_check(
    "model-unreadable",
    "error",
    "weights that are not there, or whose header is damaged",
    why="The engine will fail at the same place, some seconds or minutes into the load.",
    fix="fetch the file again; gearshift verify compares it with a lock",
    link="docs/recipes.md",
)
def _model_unreadable(case: Case) -> Iterator[Sighting]:
    to_be_pulled = case.pins is not None and None in case.pins.found.values()  # pin-files says so
    if case.model_trouble and not to_be_pulled:
        yield Sighting(case.model_trouble, "weights")


@_check(
    "model-files-missing",
    "error",
    "parts of a split GGUF file, or files that a checkpoint's index names, that are not there",
    why="A file that looks unused may hold tensors that the index maps: without it the checkpoint is broken.",
    fix="fetch the missing files; gearshift pull does from a lock",
    link="docs/recipes.md",
)
def _model_files_missing(case: Case) -> Iterator[Sighting]:
    if case.model and case.model.missing_files:
        what = f"not there: {_some(case.model.missing_files)}"
        yield _to_be_fetched(what) if _fetches(case) else Sighting(what, "weights")


@_check(
    "model-weights-absent",
    "error",
    "a model folder without a file of weights that vLLM loads",
    why="The engine reads the configuration, looks for weights, finds none and ends.",
    fix="fetch the weights; GGUF files are for llama.cpp, by the path of the file",
    link="docs/recipes.md",
)
def _model_weights_absent(case: Case) -> Iterator[Sighting]:
    to_be_pulled = case.pins is not None and None in case.pins.found.values()  # pin-files says so
    told_already = case.model is None or case.model.missing_files  # model-unreadable, model-files-missing
    what = weightless(case.variant, case.flags, case.checkpoint)
    if what and not (to_be_pulled or told_already):
        yield _to_be_fetched(what) if _fetches(case) else Sighting(what, "weights")


def _fetches(case: Case) -> bool:
    """Whether vLLM will fetch what the hub's cache lacks."""
    by_id = not (case.variant.weights or "/").startswith("/")
    return case.kind == "vllm" and by_id and case.env.get("HF_HUB_OFFLINE", "").upper() not in _ON


def _to_be_fetched(what: str) -> Sighting:
    fix = "vLLM fetches them at its start, which load_timeout must allow for; hf download does it before"
    return Sighting(f"{what}: not fetched yet", "weights", fix, "note")


@_check(
    "ram-weights",
    "warning",
    "weights larger than the RAM of a box without GPUs",
    why="Every token reads all weights: what does not fit comes from the disk again and again.",
    fix="use a smaller quantization or a smaller model",
    link="docs/planner.md",
)
def _ram_weights(case: Case) -> Iterator[Sighting]:
    memory, weights = case.box.memory, _weights_bytes(case)
    if memory and case.box.devices and not case.box.gpus and weights > memory.total_bytes:
        what = f"{format_bytes(weights)} of weights, {format_bytes(memory.total_bytes)} of RAM"
        yield Sighting(what, "weights")


@_check(
    "sleep-ram",
    "warning",
    "sleep level 1 with less free RAM than the weights take",
    why="Level 1 keeps the weights in RAM: putting the variant to sleep would swap or be killed.",
    fix="write sleep: {level: 2}, which reads them again from disk, or free RAM",
    link="docs/configuration.md",
)
def _sleep_ram(case: Case) -> Iterator[Sighting]:
    memory, weights = case.box.memory, _weights_bytes(case)
    keeps = case.variant.sleep is not None and case.variant.sleep.level == 1
    if memory and keeps and weights > memory.available_bytes:
        what = f"{format_bytes(weights)} of weights, {format_bytes(memory.available_bytes)} of RAM are free"
        yield Sighting(what, "sleep")


def _weights_bytes(case: Case) -> int:
    return sum(file.bytes for file in case.model.files) if case.model else 0


@_check(
    "mtp-absent",
    "error",
    "MTP asked for on a model without a draft head",
    why="llama.cpp refuses to load; vLLM fails, or drafts from random weights and accepts nothing.",
    fix="write speculation: off, or use a release that kept its MTP head",
    link=_MTP_THREAD,
)
def _mtp_absent(case: Case) -> Iterator[Sighting]:
    apart = case.variant.speculation is not None and case.variant.speculation.draft is not None
    if with_mtp(case) and case.model and case.model.mtp is None and not apart:
        yield Sighting("the model's files say nothing of an MTP head", "speculation")


@_check(
    "mtp-incomplete",
    "error",
    "a draft head that the metadata promises and the files do not hold",
    why="vLLM does not notice on quantized checkpoints: the head stays random, acceptance is about zero, no error.",
    fix="fetch the missing file or another release; vLLM checks with model-loader-extra-config enable_weights_track",
    link=_MTP_THREAD,
)
def _mtp_incomplete(case: Case) -> Iterator[Sighting]:
    head = _mtp(case)
    if head and head.complete is False:
        severity: Severity | None = None if with_mtp(case) else "note"
        yield Sighting(f"no file holds {_some(head.missing)}", "weights", severity=severity)


@_check(
    "mtp-not-excluded",
    "warning",
    "a draft head in plain precision that the quantization's list of excluded modules does not name",
    why="The loader then looks for quantized tensors under other names, finds none, and leaves the head random.",
    fix="add mtp.* to the checkpoint's list, or watch the accepted draft tokens after the start",
    link=_MTP_THREAD,
)
def _mtp_not_excluded(case: Case) -> Iterator[Sighting]:
    head = _mtp(case)
    if not (head and head.types and case.not_quantized is not None and with_mtp(case)):
        return
    if set(head.types) <= _PLAIN and not any(_covers(entry, _HEAD_MODULE) for entry in case.not_quantized):
        yield Sighting(f"the head is {'/'.join(head.types)}, and the exclusions do not name it", "weights")


def _covers(entry: str, module: str) -> bool:
    """Whether an exclusion (a name, a prefix, a glob or a ``re:`` expression) is about the draft head."""
    return "mtp" in entry or entry == "*" or fnmatchcase(module, entry)


@_check(
    "mtp-low-precision",
    "warning",
    "a draft head quantized to four bits or fewer",
    why="Acceptance suffers first: measured, a 4-bit head got its third token through in 27 % of steps.",
    fix="draft fewer tokens, or use a release that keeps the head in 8 bits or BF16; measure both",
    link=_MTP_THREAD,
)
def _mtp_low_precision(case: Case) -> Iterator[Sighting]:
    head = _mtp(case)
    packed = _PACKED if (case.weight_bits or 8) <= _FEW_BITS else set()
    low = [kind for kind in head.types if kind.startswith(_FOUR_BITS) or kind in packed] if head else []
    if with_mtp(case) and low:
        yield Sighting(f"the head holds {'/'.join(low)} tensors", "weights")


@_check(
    "mtp-plain-beside-quantized",
    "note",
    "a BF16 draft head beside a model in four bits (vLLM)",
    why="The head cannot use the model's kernels and is a dear part of each step: MTP may lose although it works.",
    fix="compare with speculation: off before settling",
    link="https://huggingface.co/sakamakismile/Qwen3.6-27B-NVFP4/discussions/7",
)
def _mtp_plain_beside_quantized(case: Case) -> Iterator[Sighting]:
    head, few = _mtp(case), case.weight_bits is not None and case.weight_bits <= _FEW_BITS
    plain = head is not None and bool(head.types) and set(head.types) <= _PLAIN
    if case.kind == "vllm" and with_mtp(case) and plain and few:
        yield Sighting(f"a plain head beside weights of {case.weight_bits} bits", "speculation")


@_check(
    "mtp-off",
    "note",
    "a whole draft head that the variant does not use",
    why="Neither engine turns MTP on by itself; at one user and short context it often gains half again.",
    fix="try speculation: {method: mtp, tokens: 3} in a variant beside this one",
    link="docs/configuration.md",
)
def _mtp_off(case: Case) -> Iterator[Sighting]:
    head = _mtp(case)
    if head and head.complete and not methods(case) and case.variant.speculation is None:
        yield Sighting("the model brings an MTP head; the variant does not speculate", "speculation")


@_check(
    "mtp-many-tokens",
    "note",
    f"more than {_LONG_DRAFT} MTP tokens per step",
    why="A head that predicts one step is asked to go on from its own guesses; 4 were slower than 3 where measured.",
    fix="draft 2 or 3 tokens, and measure",
    link="docs/doctor.md",
)
def _mtp_many_tokens(case: Case) -> Iterator[Sighting]:
    if with_mtp(case) and drafted(case) > _LONG_DRAFT:
        yield Sighting(f"{drafted(case)} tokens are drafted per step", "speculation.tokens")


@_check(
    "draft-vocabulary",
    "error",
    "a draft model whose vocabulary differs from the target's",
    why="Its tokens mean other words: vLLM refuses the pair, llama.cpp starts and drafts nothing.",
    fix="use a draft model of the same family and release",
    link="https://docs.vllm.ai/en/latest/features/spec_decode.html",
)
def _draft_vocabulary(case: Case) -> Iterator[Sighting]:
    severity: Severity | None = "warning" if case.kind == "llama.cpp" else None
    if case.model and case.draft and vllm_config(case).get("use_heterogeneous_vocab") is not True:
        for method in sorted(methods(case)):
            for what in vocabulary_misfits(case.variant.engine.kind, method, case.model, case.draft):
                yield Sighting(what, "speculation.draft", severity=severity)


@_check(
    "draft-shapes",
    "error",
    "a drafter whose tensors do not fit the target, or its own config.json",
    why="vLLM's loader stops at the first such tensor (seen: 128 against 256); llama.cpp fails every request.",
    fix="use a drafter made for this very checkpoint, or write speculation: off",
    link="https://github.com/vllm-project/speculators/issues/851",
)
def _draft_shapes(case: Case) -> Iterator[Sighting]:
    if case.model and case.draft and (found := shape_misfits(case.model, case.draft)):
        yield Sighting(_some(found), "speculation.draft")


@_check(
    "context-beyond-training",
    "error",
    "a context longer than the model and its scaling of positions allow",
    why="vLLM refuses it; llama.cpp starts with a warning, keeps the cache for it, and ends requests at the length.",
    fix="lower context, or scale positions (llama.cpp: rope-scaling: yarn and rope-scale; vLLM: hf-overrides)",
    link="docs/configuration.md",
)
def _context_beyond_training(case: Case) -> Iterator[Sighting]:
    if case.model is None or case.kind == "command":
        return
    request = request_for(case.variant, _ANYWHERE, engine_version=case.version)
    asked, let_through = request.context or 0, case.env.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN") == "1"
    longest = model_longest(request, case.model)
    slots = case.variant.parallel or 1 if case.kind == "llama.cpp" else 1  # the window is one pool for all slots
    if longest and asked > longest * slots:
        severity: Severity | None = "warning" if case.kind == "llama.cpp" or let_through else None
        yield Sighting(f"context is {asked}, the model allows {longest}", "context", severity=severity)


@_check(
    "tokenizer-truncation",
    "warning",
    "a tokenizer.json that cuts prompts",
    why="Longer prompts lose tokens: vLLM answers HTTP 400 to large images, whose placeholders are cut.",
    fix='set "truncation": null in tokenizer.json, or fetch a newer export',
    link="https://github.com/huggingface/transformers/issues/37222",
)
def _tokenizer_truncation(case: Case) -> Iterator[Sighting]:
    if case.truncation is not None:
        image = f", and one image may take {case.image_tokens}" if case.image_tokens else ""
        yield Sighting(f"tokenizer.json cuts after {case.truncation} tokens{image}", "weights")
