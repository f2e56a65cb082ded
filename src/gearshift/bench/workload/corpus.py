"""Text that is text, from the Python installation itself: acceptance of drafts depends on what is written."""

from __future__ import annotations

import ast
import json
import sysconfig
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Literal

Kind = Literal["code", "prose", "json", "reasoning"]

_CODE = ("argparse", "ast", "asyncio/base_events", "csv", "dataclasses", "datetime", "decimal", "difflib", "heapq",
         "http/client", "inspect", "json/decoder", "logging/__init__", "mailbox", "pathlib", "pickle", "random",
         "shutil", "socket", "statistics", "subprocess", "tarfile", "textwrap", "threading", "typing",
         "unittest/mock", "urllib/parse", "zipfile")  # fmt: skip
_TOOLS = ("search", "read_file", "weather", "calendar", "translate", "convert", "plot", "book_room")
_NAMES = ("Ada", "Boole", "Curie", "Dirac", "Euler", "Fermi", "Gauss", "Hopper", "Ito", "Jacobi")


@cache
def corpus(kind: Kind) -> str:
    """A text of its kind, about a megabyte or what there is; the same on every call."""
    makers: dict[Kind, Callable[[], str]] = {
        "code": _code,
        "prose": _prose,
        "json": _json,
        "reasoning": _reasoning,
    }
    return makers[kind]()


def _library() -> Path:
    return Path(sysconfig.get_paths()["stdlib"])


def _sources() -> Iterator[str]:
    for name in _CODE:
        path = _library() / f"{name}.py"
        if path.is_file():
            yield path.read_text(encoding="utf-8")


def _code() -> str:
    return "\n\n".join(_sources())


def _prose() -> str:
    """The language reference that ``help()`` shows, else the docstrings of the standard library."""
    try:
        from pydoc_data.topics import topics  # noqa: PLC0415 - 700 KB that only this kind of text needs
    except ImportError:  # some distributions split it off
        return "\n\n".join(docstring for source in _sources() for docstring in _docstrings(source))
    return "\n\n".join(topics[name] for name in sorted(topics))


def _docstrings(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
            yield text


def _json() -> str:
    """Tool calls and their results, as an agent's transcript holds them."""
    random = Random(7)  # noqa: S311 - the same text on every box
    return "\n".join(json.dumps(_tool_call(random, number)) for number in range(4000))


def _tool_call(random: Random, number: int) -> dict[str, object]:
    return {
        "id": f"call_{number:05d}",
        "type": "function",
        "function": {"name": random.choice(_TOOLS), "arguments": {"user": random.choice(_NAMES), "limit": number % 50}},
        "result": {"status": "ok", "score": round(random.random(), 4), "tags": random.sample(_NAMES, 3)},
    }


def _reasoning() -> str:
    """Sums worked out step by step."""
    random = Random(11)  # noqa: S311 - the same text on every box
    return "\n\n".join(_worked_sum(random) for _ in range(4000))


def _worked_sum(random: Random) -> str:
    name, boxes, each, given = random.choice(_NAMES), random.randint(3, 40), random.randint(2, 60), random.randint(1, 9)
    total = boxes * each
    return (
        f"Problem: {name} has {boxes} boxes with {each} screws in each and gives away {given} of the boxes.\n"
        f"First, all boxes together hold {boxes} x {each} = {total} screws. The boxes given away hold "
        f"{given} x {each} = {given * each}. What is left is {total} - {given * each} = {total - given * each} screws."
    )
