"""Checking speculation: methods and ``--speculative-config`` keys by engine version."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator

from gearshift.domain.engine import FlagMap
from gearshift.domain.spelling import near
from gearshift.domain.variant import Variant
from gearshift.engines.arguments import given_value
from gearshift.engines.flags import find_flag
from gearshift.engines.speculation import NEUTRAL, is_off, llamacpp_method
from gearshift.engines.vllm_history import methods_of, minor_of, speculation_keys_of

Found = tuple[str, str, str | None]  # place below the variant, message, hint


def speculation_problems(variant: Variant, flags: FlagMap) -> Iterator[Found]:
    """What the engine version would refuse of ``speculation`` and of a ``speculative-config`` in args."""
    if variant.speculation is not None and not is_off(variant.speculation):
        yield from _needs_draft(variant)
        if flags.kind == "vllm":
            yield from _vllm_method(variant.speculation.method, flags, "speculation.method")
        else:
            yield from _llamacpp_method(variant.speculation.method, flags)
    if flags.kind == "vllm":
        yield from _config(variant, flags)


def _needs_draft(variant: Variant) -> Iterator[Found]:
    speculation = variant.speculation
    if speculation and speculation.method == "draft" and not speculation.draft:
        yield "speculation.draft", "method draft needs the draft model's weights", "add draft: PATH"


def _llamacpp_method(method: str, flags: FlagMap) -> Iterator[Found]:
    flag = find_flag(flags, "spec-type")
    if flag is None:
        yield "speculation.method", f"llama.cpp {flags.version or ''} has no --spec-type", "use a newer build"
        return
    for part in llamacpp_method(method, flags).split(","):
        if flag.choices and part not in flag.choices:
            yield "speculation.method", f"llama.cpp has no speculation method {part!r}", _known_hint(part, flag.choices)


def _vllm_method(method: str, flags: FlagMap, place: str) -> Iterator[Found]:
    known = methods_of(minor_of(flags.version))
    if method in (*known, *NEUTRAL):
        return
    if method.endswith("_mtp"):
        yield place, f"method {method} is deprecated", "write mtp"
    else:
        yield place, f"vLLM {flags.version or ''} has no speculation method {method!r}", _known_hint(method, known)


def _config(variant: Variant, flags: FlagMap) -> Iterator[Found]:
    text = given_value(flags, variant.args, "speculative-config")
    if not isinstance(text, str) or any("." in name for name in variant.args if name.startswith("speculative")):
        return
    place = "args.speculative-config"
    try:
        config = json.loads(text)
    except ValueError as error:
        yield place, f"not JSON: {error}", 'write for example {"method":"mtp","num_speculative_tokens":2}'
        return
    if not isinstance(config, dict):
        yield place, "not a JSON object", None
        return
    keys = speculation_keys_of(minor_of(flags.version))
    for key in config:
        if key not in keys and not key.startswith("fly_"):
            yield place, f"vLLM {flags.version or ''} does not know the key {key!r}", _known_hint(key, keys)
    if isinstance(method := config.get("method"), str):
        yield from _vllm_method(method, flags, place)


def _known_hint(word: str, known: Collection[str]) -> str:
    return near(word, known) or f"one of {', '.join(sorted(known))}"
