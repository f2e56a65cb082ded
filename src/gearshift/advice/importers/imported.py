"""What an import gives: our text, and what a person has to know about it."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gearshift.config.writing import yaml_text

VARIANT = "main"  # the one variant of an imported model; clients go on using the model's name


@dataclass(frozen=True, slots=True)
class Imported:
    """A configuration of ours that loads. ``notes`` say what differs from the original; they head the text too."""

    text: str
    notes: tuple[str, ...]


def imported(source: str, tree: Mapping[str, object], notes: Sequence[str]) -> Imported:
    """Write the tree under its notes."""
    once = tuple(dict.fromkeys(notes))
    lines = [f"# Imported from {source}."]
    if once:
        lines.append("# Not carried over as it was:")
        lines += [_comment(note) for note in once]
    return Imported("\n".join([*lines, "", yaml_text(dict(tree))]), once)


def literal_text(text: str) -> str:
    """Text with every `${` of its own made literal, but for our two placeholders."""
    return text.replace("${", "$${").replace("$${env:", "${env:").replace("$${port}", "${port}")


def literal(value: object) -> object:
    """A value with each text in it made literal."""
    if isinstance(value, dict):
        return {key: literal(item) for key, item in value.items()}
    if isinstance(value, list):
        return [literal(item) for item in value]
    return literal_text(value) if isinstance(value, str) else value


def _comment(note: str) -> str:
    return textwrap.fill(note, 110, initial_indent="#   - ", subsequent_indent="#     ", break_long_words=False)
