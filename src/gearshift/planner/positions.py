"""How long a request may be by the model's own positions, and what each engine does with more.

vLLM derives a limit from the config and refuses more (config/model.py of 0.32); llama-server starts with more, but ends
a request there (b11434, seen with flags and with a file's own scaling).
"""

from __future__ import annotations

from gearshift.artifacts.facts import ModelFacts, Rope
from gearshift.planner.request import PlanRequest
from gearshift.planner.vllm_rules import VllmRules

_UNSCALED = Rope("default")
_YARN = frozenset({"yarn", "deepseek_yarn", "deepseek_llama_scaling"})
_STATED = frozenset({"default", "su", "longrope", "llama3"})  # the stated length is the scaled one


def llamacpp_longest(request: PlanRequest, facts: ModelFacts) -> int | None:
    """Tokens at which llama-server ends a request; None where the file does not say.

    That is the file's length, whatever its own scaling; only YaRN asked for by flags moves it, and no other kind does.
    """
    stated = request.positions or facts.context_train
    own, asked = facts.rope or _UNSCALED, request.rope
    if stated is None or asked is None or asked.factor in {None, own.factor}:
        return stated
    if (asked.kind or own.kind) != "yarn":
        return stated
    return int((asked.original or own.original or stated) * (asked.factor or 1))


def vllm_longest(request: PlanRequest, facts: ModelFacts, rules: VllmRules) -> int | None:
    """The largest max_model_len that vLLM takes unless told to let more through; None without a stated length."""
    stated, rope = request.positions or facts.context_train, request.rope or facts.rope or _UNSCALED
    if stated is None or rope.kind in _STATED or facts.family.lower().startswith("gemma3"):
        return stated
    if rope.kind in _YARN and not rules.scales_yarn_itself:
        return stated
    start = rope.original if rope.kind == "yarn" and rope.original else stated
    return int(start * (rope.factor or 1))


def vllm_default(request: PlanRequest, facts: ModelFacts, rules: VllmRules) -> int:
    """max_model_len where none is given: the longest, but what LongRoPE was trained for unscaled. 0 = not known."""
    rope = request.rope or facts.rope or _UNSCALED
    unscaled = rope.original if rope.kind == "longrope" else None
    return unscaled or vllm_longest(request, facts, rules) or 0


def beyond_vllm(request: PlanRequest, facts: ModelFacts, rules: VllmRules, *, context: int) -> str | None:
    """What happens to a context that the model's config does not allow; None where it does."""
    longest = vllm_longest(request, facts, rules)
    if longest is None or context <= longest:
        return None
    more = f"max_model_len {context:,} is more than the {longest:,} tokens that the model's config allows"
    if request.longer_allowed:
        return f"{more}: VLLM_ALLOW_LONG_MAX_MODEL_LEN lets it through, and positions beyond may be nan"
    return f"{more}: lower context, or scale positions and state the length reached (args hf-overrides)"


def scaled(request: PlanRequest, facts: ModelFacts, *, context: int) -> str | None:
    """A word on scaling that works at every length; None where positions are as they were trained."""
    own, asked = facts.rope or _UNSCALED, request.rope or _UNSCALED
    factor, kind = asked.factor or own.factor, own.kind if asked.kind in {None, "default"} else asked.kind
    original = asked.original or own.original or facts.context_train
    if kind not in {"yarn", "linear"} or not factor or factor == 1 or not original or context <= original:
        return None
    return f"positions are scaled ({kind}, {factor:g} times {original:,} tokens), also those of short requests"
