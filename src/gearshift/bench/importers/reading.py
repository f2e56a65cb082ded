"""Finds out which tool wrote a file and reads it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gearshift.bench.importers import aiperf, benchy, guidellm, inference_perf, llamacpp, sglang, vllm
from gearshift.bench.importers.imported import Document, Imported, ImportFormatError
from gearshift.stats.invariants import Check

Matches = Callable[[Sequence[Document]], bool]
Read = Callable[[Sequence[Document]], Imported]

_FORMATS: tuple[tuple[Matches, Read], ...] = (
    (aiperf.matches, aiperf.read),
    (aiperf.matches_records, aiperf.read_records),
    (llamacpp.matches, llamacpp.read),
    (llamacpp.matches_batched, llamacpp.read_batched),
    (guidellm.matches, guidellm.read),
    (benchy.matches, benchy.read),
    (inference_perf.matches, inference_perf.read),
    (sglang.matches, sglang.read),
    (vllm.matches, vllm.read),
)
KNOWN = "vllm bench serve, llama-bench, llama-batched-bench, guidellm, aiperf, llama-benchy, inference-perf, sglang"


def read_file(path: Path) -> Imported:
    """The result in ``path``: a JSON document, a list, or JSON lines whatever its name ends in.

    Raises:
        ImportFormatError: unreadable, no JSON, or written by none of the tools we know.
    """
    rows = _rows(path)
    try:
        for matches, read in _FORMATS:
            if matches(rows):
                return read(rows)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        msg = f"{path} looks like a known format but is damaged: {type(error).__name__}: {error}"
        raise ImportFormatError(msg, hint="export the result again") from error
    msg = f"{path} is no result file that we know; its keys are {', '.join(sorted(rows[0])[:12])}"
    raise ImportFormatError(msg, hint=f"known are: {KNOWN}")


def cross_check(results: Sequence[Imported]) -> tuple[Check, ...]:
    """Checks between files given together: so far, inference-perf's two views of one stage."""
    clients = [result for result in results if result.tool == inference_perf.CLIENT]
    servers = [result for result in results if result.tool == inference_perf.SERVER]
    if len(clients) == len(servers) == 1:
        return inference_perf.cross_check(clients[0], servers[0])
    return ()


def _rows(path: Path) -> list[Document]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{path} cannot be read: {error}"
        raise ImportFormatError(msg) from error
    found = _parse(path, text)
    rows = found if isinstance(found, list) else [found]
    if not rows or not all(isinstance(row, dict) for row in rows):
        msg = f"{path} holds no JSON object"
        raise ImportFormatError(msg, hint=f"known are: {KNOWN}")
    return rows


def _parse(path: Path, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        pass  # several documents, one a line; some tools append such lines to a .json file
    try:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except ValueError as error:
        msg = f"{path} is neither JSON nor JSON lines: {error}"
        raise ImportFormatError(msg, hint=f"known are: {KNOWN}") from error
