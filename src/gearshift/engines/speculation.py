"""Speculative decoding: Gearshift's three neutral methods under each engine's own names."""

from __future__ import annotations

import json

from gearshift.domain.device import CPU_DEVICE
from gearshift.domain.engine import FlagMap
from gearshift.domain.variant import Speculation
from gearshift.engines.arguments import Default
from gearshift.engines.flags import find_flag

NEUTRAL = ("mtp", "ngram", "draft", "off", "none")
_LLAMACPP = {"mtp": "draft-mtp", "ngram": "ngram-mod", "draft": "draft-simple"}
_VLLM = {"draft": "draft_model"}
_DRAFT_TOKENS = 3  # llama.cpp's own default; vLLM's ngram and draft_model insist on a number


def is_off(speculation: Speculation | None) -> bool:
    """Whether the variant speculates at all."""
    return speculation is None or speculation.method in {"off", "none"}


def llamacpp_method(method: str, flags: FlagMap) -> str:
    """The ``--spec-type`` for a method; builds of May 2026 called MTP plain ``mtp``."""
    name = _LLAMACPP.get(method, method)
    flag = find_flag(flags, "spec-type")
    known = flag.choices if flag else ()
    return method if known and name not in known and method in known else name


def llamacpp_speculation(speculation: Speculation | None, flags: FlagMap, devices: tuple[str, ...]) -> list[Default]:
    """llama-server's flags: the type, how many tokens to draft, and where a separate draft model goes."""
    if speculation is None or is_off(speculation):
        return []
    method = llamacpp_method(speculation.method, flags)
    chosen: list[Default] = [("spec-type", method), *_llamacpp_tokens(method, speculation.tokens)]
    if speculation.draft:
        place: Default = ("spec-draft-device", "none") if devices == (CPU_DEVICE,) else ("spec-draft-ngl", "all")
        chosen += [("spec-draft-model", speculation.draft), place]
    return chosen


def _llamacpp_tokens(method: str, tokens: int | None) -> list[Default]:
    if tokens is None:
        return []
    if method == "ngram-mod":  # drafts below n-min (48 unless set) are thrown away, so it has to come down too
        return [("spec-ngram-mod-n-max", tokens), ("spec-ngram-mod-n-min", 1)]
    if method.startswith("ngram"):
        return [(f"spec-{method}-size-m", tokens)]
    return [("spec-draft-n-max", tokens), ("draft-max", tokens)]  # before and after the rename; only one is known


def vllm_speculation(speculation: Speculation | None) -> str | None:
    """The JSON of ``--speculative-config``, with keys that every version from 0.22 on accepts."""
    if speculation is None or is_off(speculation):
        return None
    method = _VLLM.get(speculation.method, speculation.method)
    config: dict[str, object] = {"method": method}
    if speculation.draft:
        config["model"] = speculation.draft
    tokens = speculation.tokens or (_DRAFT_TOKENS if method in {"ngram", "draft_model"} else None)
    if tokens:
        config["num_speculative_tokens"] = tokens
    return json.dumps(config, separators=(",", ":"))
