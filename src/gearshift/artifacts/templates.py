"""Chat templates: where a model keeps its own, what it says, and the hash that pins it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gearshift.artifacts.damage import fail, fail_to_read
from gearshift.artifacts.gguf import read_gguf
from gearshift.artifacts.json_file import read_json
from gearshift.artifacts.source import open_source

TEMPLATE_FILE = "chat_template.jinja"
_OLD_FILE = "chat_template.json"  # processors of 2024 and 2025 kept it there
_GGUF_KEY = "tokenizer.chat_template"


@dataclass(frozen=True, slots=True)
class Template:
    """A chat template's text and where it was found."""

    text: str
    source: str

    @property
    def sha256(self) -> str:
        """Of the text as UTF-8, which for a file of its own is the hash of the file."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Rendering:
    """What a template made of a conversation with a tool call and thinking; ``templates_render`` fills it in.

    ``failure`` is why a plain conversation could not be rendered, ``tool_failure`` why one with tools could not.
    ``lost`` names what went in and did not come out. ``thinks``: the template knows of reasoning at all.
    """

    failure: str | None = None
    tool_failure: str | None = None
    lost: tuple[str, ...] = ()
    thinks: bool = False


def read_template(path: Path) -> Template:
    """A template file. Raises GearshiftError."""
    try:
        return Template(path.read_bytes().decode(), str(path))
    except OSError as error:
        fail_to_read(path, error)
    except UnicodeDecodeError as error:
        fail(path, f"is not UTF-8: {error}", hint="a chat template is a text file", cause=error)


def model_template(weights: Path) -> Template | None:
    """The template a model brings: of a GGUF file its metadata, of a folder the file that engines prefer.

    None where it has none. Raises GearshiftError where a file that should hold one cannot be read.
    """
    if not weights.is_dir():
        return _of_gguf(weights)
    found = (read(weights / name) for name, read in _PLACES if (weights / name).is_file())
    return next((template for template in found if template), None)


def template_files(weights: Path) -> tuple[Path, ...]:
    """Every file that `model_template` may read, whether it is there or not."""
    if not weights.is_dir():
        return (weights,)
    return tuple(weights / name for name, _ in _PLACES)


def _of_gguf(path: Path) -> Template | None:
    with open_source(path) as source:
        text = read_gguf(source).metadata.get(_GGUF_KEY)
    return Template(text, f"{path}: {_GGUF_KEY}") if isinstance(text, str) else None


def _of_json(path: Path) -> Template | None:
    document = read_json(path)
    named = document.get("chat_template")
    text = named if isinstance(named, str) else next(_default_of(named), None)
    return Template(text, f"{path}: chat_template") if text is not None else None


def _default_of(named: Any) -> Iterator[str]:
    """Of several named templates the one that engines take for chats."""
    entries = [entry for entry in named if isinstance(entry, dict)] if isinstance(named, list) else []
    for entry in entries:
        if entry.get("name") == "default" and isinstance(entry.get("template"), str):
            yield entry["template"]


_PLACES: tuple[tuple[str, Callable[[Path], Template | None]], ...] = (
    (TEMPLATE_FILE, read_template),
    (_OLD_FILE, _of_json),
    ("tokenizer_config.json", _of_json),
)
