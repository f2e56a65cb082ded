"""What a variant drafts with, whichever way it says so."""

from __future__ import annotations

import json
from typing import Any

from gearshift.advice.doctor.case import Case
from gearshift.domain.variant import Speculation
from gearshift.engines.speculation import is_off

_DRAFTED = 3  # what llama.cpp drafts when it is not told


def methods(case: Case) -> frozenset[str]:
    """The methods asked for, MTP under its neutral name; empty where the variant does not speculate."""
    named = _from_field(case.variant.speculation) if case.variant.speculation else _from_args(case)
    return frozenset(_neutral(method.strip()) for method in named.split(",") if method.strip() not in {"", "none"})


def with_mtp(case: Case) -> bool:
    """Whether the model's own multi-token-prediction head is asked for."""
    return "mtp" in methods(case)


def drafted(case: Case) -> int:
    """Tokens drafted per step; the engine's default where the variant does not say."""
    if case.variant.speculation is not None:
        return case.variant.speculation.tokens or _DRAFTED
    given = (
        case.arg("spec-draft-n-max") if case.kind == "llama.cpp" else vllm_config(case).get("num_speculative_tokens")
    )
    return given if isinstance(given, int) else _DRAFTED


def vllm_config(case: Case) -> dict[str, Any]:
    """The JSON given as ``speculative-config``; empty where there is none that can be read."""
    given = case.arg("speculative-config")
    try:
        config = json.loads(given) if isinstance(given, str) else {}
    except ValueError:
        return {}
    return config if isinstance(config, dict) else {}


def _from_field(speculation: Speculation) -> str:
    return "" if is_off(speculation) else speculation.method


def _from_args(case: Case) -> str:
    if case.kind == "vllm":
        config = vllm_config(case)
        return str(config.get("method") or case.arg("spec-method") or ("draft_model" if config.get("model") else ""))
    given = case.arg("spec-type")
    return ",".join(map(str, given)) if isinstance(given, tuple) else str(given or "")


def _neutral(method: str) -> str:
    return "mtp" if method in {"mtp", "draft-mtp"} or method.endswith("_mtp") else method
