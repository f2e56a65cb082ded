"""Finds out which tool wrote a file and reads it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gearshift.bench.importers import aiperf, benchy, guidellm, inference_perf, llamacpp, sglang, vllm
from gearshift.bench.importers.imported import Document, Imported, ImportFormatError
from gearshift.bench.importers.plausible import plausible
from gearshift.domain.units import GIB, format_bytes
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
_MOST_BYTES = GIB  # a file with every answer's text of a long run has some hundred MB
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
                found = read(rows)
                return replace(found, invariants=(*found.invariants, *plausible(found.rows)))
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
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
        if (size := path.stat().st_size) > _MOST_BYTES:
            msg = f"{path} has {format_bytes(size)}; result files have at most {format_bytes(_MOST_BYTES)}"
            raise ImportFormatError(msg, hint="export the result without the texts of its answers")
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
        return _one_document(text)
    except ValueError as error:
        whole = error
    try:  # several documents, one a line; some tools append such lines to a .json file
        return [_one_document(line) for line in text.splitlines() if line.strip()]
    except ValueError as error:
        pretty = text.lstrip()[:2].strip() in {"{", "["}  # its first line is no document of its own
        msg = f"{path} is neither JSON nor JSON lines: {whole if pretty else error}"
        raise ImportFormatError(msg, hint=f"was it cut off? Known are: {KNOWN}") from error


def _one_document(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except RecursionError as error:
        msg = "nested too deeply"
        raise ValueError(msg) from error


def _no_number(_constant: str) -> None:
    """NaN and Infinity, which some tools write where they know nothing: unknown."""


def _finite(digits: str) -> float | None:
    value = float(digits)
    return value if math.isfinite(value) else None
