"""Prompts from files: JSON lines, ShareGPT, Spec-Bench. Each gets a nonce in front by whoever sends it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
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
    try:
        text = path.read_text(encoding="utf-8")
        rows = json.loads(text) if text.lstrip().startswith("[") else [json.loads(line) for line in _lines(text)]
    except (OSError, ValueError) as error:
        msg = f"{path} cannot be read as JSON or JSON lines: {error}"
        raise WorkloadFileError(msg) from error
    found = tuple(prompt for number, row in enumerate(rows, 1) for prompt in _prompts(path, number, row))
    if not found:
        msg = f"{path} holds no prompt"
        raise WorkloadFileError(
            msg, hint=f"give objects with one of {', '.join(_TEXT_KEYS)}, messages, conversations or turns"
        )
    return found


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def _prompts(path: Path, number: int, row: Any) -> Iterator[FilePrompt]:
    if isinstance(row, str):
        yield FilePrompt(row)
    elif isinstance(row, dict) and "conversations" in row:
        # ShareGPT holds conversations that begin with the model: those have no first question.
        turns = row["conversations"]
        if turns and turns[0].get("from") in {"human", "user"}:
            yield FilePrompt(str(turns[0].get("value", "")))
    elif isinstance(row, dict) and (text := _text(row)):
        yield FilePrompt(text, str(row.get("category", "")))
    else:
        msg = f"{path}, row {number} has no prompt"
        raise WorkloadFileError(msg, hint=f"give it one of {', '.join(_TEXT_KEYS)}, messages, conversations or turns")


def _text(row: Mapping[str, Any]) -> str:
    turns = row.get("turns")
    if isinstance(turns, list) and turns:
        return str(turns[0])
    messages = row.get("messages")
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, dict) and message.get("role") == "user" and isinstance(message.get("content"), str):
            return str(message["content"])
    return next((str(row[key]) for key in _TEXT_KEYS if isinstance(row.get(key), str)), "")
