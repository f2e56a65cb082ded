"""A fact hidden at a stated place of a long prompt, and the question for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

_PLACES = ("harbour", "observatory", "library", "foundry", "greenhouse", "lighthouse", "archive", "brewery")


@dataclass(frozen=True, slots=True)
class Needle:
    """``position`` is the share of the text before it: 0 = at the start, 1 = right before the question."""

    place: str
    code: str  # seven digits
    position: float

    @property
    def sentence(self) -> str:
        return f"The access code of the {self.place} is {self.code}."

    @property
    def question(self) -> str:
        return f"What is the access code of the {self.place}? Answer with its digits first."

    def found_in(self, text: str) -> bool:
        """Whether the answer holds the code, whatever separators the model put between its digits."""
        digits = "".join(character for character in text if character not in " ,.-_")
        return self.code in digits


def needles(positions: Iterable[float], *, seed: int) -> tuple[Needle, ...]:
    """One needle a position, each with its own place and code; the same for the same seed."""
    random = Random(seed)  # noqa: S311 - reproducible codes, no secret
    return tuple(
        Needle(_PLACES[number % len(_PLACES)], str(random.randint(1_000_000, 9_999_999)), position)
        for number, position in enumerate(positions)
    )
