"""Prompts from files: JSON lines, ShareGPT, Spec-Bench. Each gets a nonce in front by whoever sends it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gearshift.domain.errors import GearshiftError

_TEXT_KEYS = ("prompt", "text", "question", "instruction", "input")


class WorkloadFileError(GearshiftError):
    """A workload file has no prompt where one was expected."""


@dataclass(frozen=True, slots=True)
class FilePrompt:
    """A prompt with its kind, where the file gives one (Spec-Bench's category)."""

    text: str
    kind: str = ""


def read_prompts(path: Path) -> tuple[FilePrompt, ...]:
    """Every prompt of the file, first turns only.

    Reads ShareGPT (a list of ``conversations``), Spec-Bench's ``question.jsonl`` (``turns`` and ``category``) and JSON
    lines with a prompt under a usual key, with ``messages`` (the first of a user), or bare strings.

    Raises:
        WorkloadFileError: unreadable, or a row without a prompt.
    """
    found = tuple(prompt for where, row in _rows(path) for prompt in _prompts(f"{path}, {where}", row))
    if not found:
        msg = f"{path} holds no prompt"
        raise WorkloadFileError(
            msg, hint=f"give objects with one of {', '.join(_TEXT_KEYS)}, messages, conversations or turns"
        )
    return found


def _rows(path: Path) -> Iterator[tuple[str, Any]]:
    """Each row with its place: of a JSON list, or one a line."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{path} cannot be read: {error}"
        raise WorkloadFileError(msg, hint="give JSON or JSON lines in UTF-8") from error
    if not text.lstrip().startswith("["):
        lines = enumerate(text.split("\n"), 1)  # no other line end: JSON texts hold U+2028 as it is
        yield from ((f"line {number}", _json(f"{path}, line {number}", line)) for number, line in lines if line.strip())
        return
    for number, row in enumerate(_json(str(path), text), 1):
        yield f"row {number}", row


def _json(where: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        msg = f"{where} is no JSON: {error}"
        raise WorkloadFileError(msg, hint="give a JSON list, or one JSON value a line") from error


def _prompts(where: str, row: Any) -> Iterator[FilePrompt]:
    if isinstance(row, str) and row:
        yield FilePrompt(row)
    elif isinstance(row, dict) and isinstance(row.get("conversations"), list):
        if text := _question(row["conversations"]):
            yield FilePrompt(text)
    elif isinstance(row, dict) and (text := _text(row)):
        yield FilePrompt(text, str(row.get("category", "")))
    else:
        msg = f"{where} has no prompt"
        raise WorkloadFileError(msg, hint=f"give it one of {', '.join(_TEXT_KEYS)}, messages, conversations or turns")


def _question(turns: Sequence[Any]) -> str:
    """What a ShareGPT conversation begins with; empty for one of the many that begin with the model's words."""
    spoken = [turn for turn in turns if isinstance(turn, dict) and turn.get("from") != "system"]
    first = spoken[0] if spoken else {}
    said = first.get("value") if first.get("from") in {"human", "user"} else None
    return said if isinstance(said, str) else ""


def _text(row: Mapping[str, Any]) -> str:
    turns = row.get("turns")
    if isinstance(turns, list) and turns and isinstance(turns[0], str):
        return turns[0]
    messages = row.get("messages")
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, dict) and message.get("role") == "user" and isinstance(message.get("content"), str):
            return str(message["content"])
    return next((str(row[key]) for key in _TEXT_KEYS if isinstance(row.get(key), str)), "")
