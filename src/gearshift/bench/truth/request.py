"""What a client asked the truth server for."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from gearshift.bench.truth.render import PATHS, Dialect
from gearshift.bench.truth.script import Script
from gearshift.bench.truth.tokens import Vocabulary

_CODE = re.compile(r"\b\d{7}\b")  # what a needle looks like
_WORDS = ("the quick study of engines shows that a measured answer is worth more than a guessed one " * 4).split()


class RefusedKeyError(Exception):
    """A request has a key that the script refuses."""

    def __init__(self, status: int, key: str) -> None:
        super().__init__(f"unknown key {key}")
        self.status = status


@dataclass(frozen=True, slots=True)
class Asked:
    """One generation request: its prompt in ids, its answer in words, and the script that rules it."""

    script: Script
    dialect: Dialect
    stream: bool
    prompt: list[int]
    words: list[str]  # one a token

    @property
    def tokens(self) -> int:
        return len(self.words)


def read_request(path: str, body: bytes, script: Script, vocabulary: Vocabulary) -> Asked:
    """The request in ``body``; its key ``truth`` overrides fields of the script.

    Raises:
        RefusedKeyError: the script has it refused.
        ValueError: the body is no JSON object, or overrides a field that a script does not have.
    """
    asked: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Any])
    ruled = read_script(asked["truth"], base=script) if "truth" in asked else script
    if refused := [key for key in ruled.refuses if key in asked]:
        raise RefusedKeyError(ruled.refusal, refused[0])
    dialect = PATHS[path]
    text, ids = _prompt(asked)
    prompt = [*vocabulary.encode(text), *ids, *([0] * ruled.template_tokens if dialect != "completions" else [])]
    limit = asked.get("max_tokens") or asked.get("max_completion_tokens") or asked.get("max_output_tokens") or 16
    codes = _CODE.findall(text) if ruled.recall else []
    words = [*codes, *_WORDS * (limit // len(_WORDS) + 1)][:limit]
    return Asked(ruled, dialect, ruled.streams and bool(asked.get("stream")), prompt, words)


def _prompt(asked: dict[str, Any]) -> tuple[str, list[int]]:
    prompt = asked.get("prompt", asked.get("input", ""))
    if isinstance(prompt, list) and all(isinstance(token, int) for token in prompt):
        return "", prompt
    if isinstance(prompt, str) and prompt:
        return prompt, []
    messages = asked.get("messages") or (prompt if isinstance(prompt, list) else [])
    return "\n".join(str(message.get("content", "")) for message in messages), []


def read_script(overrides: dict[str, Any], *, base: Script) -> Script:
    """``base`` with some fields replaced.

    Raises:
        ValueError: a field that a script does not have, or a value of the wrong type.
    """
    known = asdict(base)
    if unknown := overrides.keys() - known.keys():
        msg = f"a script has no {', '.join(sorted(unknown))}; it has {', '.join(known)}"
        raise ValueError(msg)
    return msgspec.convert(known | overrides, Script)
