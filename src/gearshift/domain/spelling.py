"""What a misspelt name was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def near(word: str, known: Iterable[str], *, most: int = 1) -> str | None:
    """A "did you mean" naming up to ``most`` of the known names; None when none is close."""
    matches = get_close_matches(word, list(known), n=most)
    return f"did you mean {' or '.join(matches)}?" if matches else None
