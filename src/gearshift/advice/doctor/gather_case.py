"""Learning about one variant: its engine, its model's files, its template, its pins. Impure; the result is a `Case`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from gearshift.advice.doctor.case import Box, Case, Pins
from gearshift.artifacts import (
    ModelFacts,
    Template,
    cached_snapshot,
    checkpoint_files,
    model_template,
    read_json,
    read_model,
    read_template,
)
from gearshift.artifacts.templates_apart import try_template_apart
from gearshift.domain.engine import EngineInstall
from gearshift.domain.errors import GearshiftError
from gearshift.domain.variant import ArgValue, EngineRef, Variant
from gearshift.engines import check, packaged_flags
from gearshift.planner import draft_weights

FindEngine = Callable[[EngineRef], EngineInstall]
T = TypeVar("T")

_EXCLUSIONS = ("ignore", "modules_to_not_convert", "exclude_modules", "ignored_layers")


def gather_case(
    variant: Variant, *, box: Box, find_engine: FindEngine, hub_cache: Path, pins: Pins | None = None
) -> Case:
    """Everything the checks ask about a variant. Never raises: what cannot be read is a finding.

    ``hub_cache`` is where downloads by hub id lie.
    """
    install, trouble = _found(variant.engine, find_engine)
    flags = (install.flags if install else None) or packaged_flags(variant.engine.kind, variant.engine.version)
    case = Case(
        variant=variant,
        flags=flags,
        box=box,
        install=install,
        engine_trouble=trouble.message if trouble else None,
        engine_fix=trouble.hint if trouble else None,
        problems=check(variant, flags, f"models.{variant.model}.variants.{variant.name}"),
        pins=pins,
    )
    return case if variant.engine.kind == "command" else _with_template(_with_model(case, hub_cache))


def _found(engine: EngineRef, find_engine: FindEngine) -> tuple[EngineInstall | None, GearshiftError | None]:
    try:
        return find_engine(engine), None
    except GearshiftError as error:
        return None, error


def _with_model(case: Case, hub_cache: Path) -> Case:
    weights = _located(case.variant.weights, case, hub_cache)
    if weights is None:
        return case
    model, trouble = _tried(lambda: read_model(weights))
    exclusions, bits = _quantization(weights)
    return replace(
        case,
        weights=weights,
        model=model,
        model_trouble=trouble,
        checkpoint=checkpoint_files(weights),
        draft=_draft(case, hub_cache),
        not_quantized=exclusions,
        weight_bits=bits,
        truncation=_truncation(weights),
        image_tokens=_image_tokens(case, weights),
    )


def _located(weights: str | None, case: Case, hub_cache: Path) -> Path | None:
    """Where files are on this box: an absolute path, or the cached snapshot of a hub id; None = not fetched."""
    if weights is None or weights.startswith("/"):
        return Path(weights) if weights else None
    revision = case.arg("revision")
    return cached_snapshot(hub_cache, weights, str(revision) if revision else "main")


def _draft(case: Case, hub_cache: Path) -> ModelFacts | None:
    named = draft_weights(case.variant) if case.kind != "command" else None
    place = _located(named, case, hub_cache) if named else None
    return _tried(lambda: read_model(place))[0] if place else None


def _with_template(case: Case) -> Case:
    template, trouble = _tried(lambda: _template(case))
    rendering = try_template_apart(template.text) if template else None
    return replace(case, template=template, template_trouble=trouble, rendering=rendering)


def _template(case: Case) -> Template | None:
    if case.variant.template:
        return read_template(case.variant.template)
    return model_template(case.weights) if case.weights and case.model else None


def _quantization(weights: Path) -> tuple[tuple[str, ...] | None, int | None]:
    """The modules a checkpoint's quantization leaves alone, and its bits; (None, None) where it is not quantized."""
    section = _json(weights / "config.json").get("quantization_config")
    if not isinstance(section, Mapping):
        return None, None
    named = [entry for key in _EXCLUSIONS for entry in section.get(key) or ()]
    return tuple(map(str, named)), _bits(section)


def _bits(section: Mapping[str, Any]) -> int | None:
    """``bits`` (GPTQ, AWQ, AutoRound), 4 for the FP4 formats, ``num_bits`` of the first group (compressed-tensors)."""
    if isinstance(bits := section.get("bits"), int):
        return bits
    if "fp4" in f"{section.get('quant_algo')} {section.get('format')} {section.get('quant_method')}".lower():
        return 4
    groups = section.get("config_groups")
    for group in groups.values() if isinstance(groups, Mapping) else ():
        weights = group.get("weights") if isinstance(group, Mapping) else None
        if isinstance(weights, Mapping) and isinstance(weights.get("num_bits"), int):
            return int(weights["num_bits"])
    return None


def _truncation(weights: Path) -> int | None:
    """Tokens at which ``tokenizer.json`` cuts; None where it does not."""
    section = _json(weights / "tokenizer.json").get("truncation")
    length = section.get("max_length") if isinstance(section, Mapping) else None
    return length if isinstance(length, int) else None


def _image_tokens(case: Case, weights: Path) -> int | None:
    """Tokens of the largest image: its pixels over those of a merged patch, as the Qwen families count them."""
    vision = _json(weights / "config.json").get("vision_config")
    vision = vision if isinstance(vision, Mapping) else {}
    limit = _pixels(case.arg("mm-processor-kwargs")) or _json(weights / "preprocessor_config.json").get("max_pixels")
    patch, merged = vision.get("patch_size"), vision.get("spatial_merge_size")
    if not (isinstance(limit, int) and isinstance(patch, int) and isinstance(merged, int) and patch * merged > 0):
        return None
    return limit // (patch * merged) ** 2


def _pixels(given: ArgValue | None) -> int | None:
    """``max_pixels`` of vLLM's mm-processor-kwargs."""
    try:
        kwargs = json.loads(given) if isinstance(given, str) else None
    except ValueError:
        return None
    limit = kwargs.get("max_pixels") if isinstance(kwargs, dict) else None
    return limit if isinstance(limit, int) else None


def _json(path: Path) -> Mapping[str, Any]:
    """A JSON object of the model folder; empty where there is none: `read_model` has judged what must be there."""
    return (_tried(lambda: read_json(path))[0] or {}) if path.is_file() else {}


def _tried(read: Callable[[], T]) -> tuple[T | None, str | None]:
    """What was read, or why not."""
    try:
        return read(), None
    except GearshiftError as error:
        return None, error.message
