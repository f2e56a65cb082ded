"""Checks of the chat template that will be used: the variant's own, else the model's."""

from __future__ import annotations

from collections.abc import Iterator

from gearshift.advice.doctor.case import Case
from gearshift.advice.doctor.check import Check, Registered
from gearshift.advice.doctor.finding import Sighting

TEMPLATE: list[Check[Case]] = []
_check = Registered(TEMPLATE).add
_THINKING = "the reasoning before a tool call"


def _place(case: Case) -> str:
    return "template" if case.variant.template else "weights"


@_check(
    "template-unreadable",
    "error",
    "a chat template that is not there or is no text",
    why="The engine ends at once, or answers every chat with an error.",
    fix="correct template: in the configuration",
    link="docs/recipes.md",
)
def _template_unreadable(case: Case) -> Iterator[Sighting]:
    if case.template_trouble:
        yield Sighting(case.template_trouble, _place(case))


@_check(
    "template-missing",
    "warning",
    "a model without a chat template, and a variant that gives none",
    why="vLLM refuses chats; llama.cpp falls back to a form the model was not trained on.",
    fix="give template: FILE, or use /v1/completions only (probe: completion)",
    link="docs/recipes.md",
)
def _template_missing(case: Case) -> Iterator[Sighting]:
    chats = case.variant.probe.kind == "chat"
    if case.model and case.model.weights_known and chats and case.template is None and not case.template_trouble:
        yield Sighting("neither the model nor the variant has a chat template", _place(case))


@_check(
    "template-broken",
    "error",
    "a chat template that cannot render a plain conversation",
    why="Every chat request will fail in the same way.",
    fix="take the template of the model's own release, or a pinned one",
    link="docs/recipes.md",
)
def _template_broken(case: Case) -> Iterator[Sighting]:
    if case.rendering and case.rendering.failure:
        yield Sighting(case.rendering.failure, _place(case))


@_check(
    "template-tools",
    "warning",
    "a chat template that loses or refuses tools, their calls or their answers",
    why="Agents get stuck: the model is not shown its tools, or what they answered.",
    fix="use a template that supports tools (template: FILE), or do not offer this variant to agents",
    link="docs/recipes.md",
)
def _template_tools(case: Case) -> Iterator[Sighting]:
    shown = case.rendering
    if shown is None or shown.failure:
        return
    lost = [part for part in shown.lost if part != _THINKING]
    if shown.tool_failure:
        yield Sighting(f"a conversation with a tool call fails: {shown.tool_failure}", _place(case))
    elif lost:
        yield Sighting(f"the chat template does not show the model: {', '.join(lost)}", _place(case))


@_check(
    "template-thinking",
    "warning",
    "a chat template that knows of thinking and drops it between a tool call and its answer",
    why="The model forgets why it called the tool, and starts over or repeats the call.",
    fix="use a template that keeps it, or set chat-template-kwargs preserve_thinking where the template has it",
    link="docs/recipes.md",
)
def _template_thinking(case: Case) -> Iterator[Sighting]:
    if case.rendering and not case.rendering.failure and _THINKING in case.rendering.lost:
        yield Sighting(f"the chat template does not show the model: {_THINKING}", _place(case))
