"""Whether a separate drafter works beside its target: what each engine asks of the pair, before anything is loaded.

vLLM refuses a pair (its config check, or its loader, which builds tensors by the config). llama.cpp b11434 starts all
the same: with a foreign vocabulary it logs one line and serves without drafting, with hidden states of another width
every request ends in an error (common/speculative.cpp, tools/server/server-context.cpp).
"""

from __future__ import annotations

from collections.abc import Iterator

from gearshift.artifacts.facts import ModelFacts, Tokens
from gearshift.domain.variant import EngineKind
from gearshift.planner.request import PlanRequest

_SIMPLE = frozenset({"draft", "draft_model", "draft-simple"})  # drafters that work on tokens alone
_LLAMACPP_SPARE = 128  # tokens by which llama.cpp lets two vocabularies differ in length


def draft_misfits(request: PlanRequest, facts: ModelFacts) -> tuple[str, ...]:
    """Why this drafter and this target do not go together; empty where they do, or where either is not known."""
    return (*_foreign_words(request, facts), *(shape_misfits(facts, request.draft) if request.draft else ()))


def absent_draft(request: PlanRequest) -> str | None:
    """What a plan leaves out because a separate draft model is not here; None where it is, or none is asked for."""
    if not request.draft_unknown or request.speculation is None:
        return None
    what = "it is" if request.draft is None else "its weights are"
    return f"the draft model {request.speculation.draft} is left out: {what} not here"


def idle_notes(request: PlanRequest, facts: ModelFacts) -> tuple[str, ...]:
    """What llama.cpp does with a pair that does not go together."""
    shapes = shape_misfits(facts, request.draft) if request.draft else ()
    return (
        *(f"llama.cpp will start and draft nothing: {text}" for text in _foreign_words(request, facts)),
        *(f"llama.cpp will start and fail every request: {text}" for text in shapes),
    )


def _foreign_words(request: PlanRequest, facts: ModelFacts) -> tuple[str, ...]:
    if request.draft is None or request.speculation is None or request.any_draft_vocabulary:
        return ()
    return vocabulary_misfits(request.engine, request.speculation.method, facts, request.draft)


def vocabulary_misfits(engine: EngineKind, method: str, target: ModelFacts, draft: ModelFacts) -> tuple[str, ...]:
    """What differs between the vocabularies of a drafter that proposes tokens and the target that judges them."""
    if method not in _SIMPLE:
        return ()
    ours, theirs = target.vocab or 0, draft.vocab or 0
    spare = _LLAMACPP_SPARE if engine == "llama.cpp" else 0
    lengths = [f"the draft model has {theirs} tokens, the target {ours}"] if abs(ours - theirs) > spare else []
    unknown = not (ours and theirs)
    return (*([] if unknown else lengths), *(_specials(target.tokens, draft.tokens) if engine == "llama.cpp" else ()))


def shape_misfits(target: ModelFacts, draft: ModelFacts) -> tuple[str, ...]:
    """What differs between the tensors a drafter brings and those it needs beside this target."""
    width = draft.reads_hidden
    narrow = f"the drafter reads hidden states of {width}, the target's are {target.hidden} wide"
    return (
        *([narrow] if width and width != target.hidden else []),
        *(f"the drafter's {text}" for text in draft.misshapen),
    )


def _specials(target: Tokens | None, draft: Tokens | None) -> Iterator[str]:
    """llama.cpp's other conditions; the text of each token is compared too, which a header walk does not read."""
    if target is None or draft is None:
        return
    if target.kind and draft.kind and target.kind != draft.kind:
        yield f"the draft model's tokenizer is {draft.kind}, the target's {target.kind}"
    marks = (("first", target.adds_bos, draft.adds_bos, target.bos, draft.bos),
             ("last", target.adds_eos, draft.adds_eos, target.eos, draft.eos))  # fmt: skip
    for name, ours, theirs, our_id, their_id in marks:
        if ours is not None and theirs is not None and (ours != theirs or (ours and our_id != their_id)):
            yield f"the two add different {name} tokens ({their_id} and {our_id})"
