"""Paths of the file: relative to its folder, `~` expanded; hub ids are told from paths."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gearshift.config.presence import presence

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(:[\w.-]+)?")
_FILE_ENDINGS = (".gguf", ".safetensors", ".bin", ".json", ".jinja")


@dataclass(frozen=True, slots=True)
class Base:
    """The folder that a configuration's paths start from, and the home that `~` means."""

    folder: Path
    home: Path

    @classmethod
    def of(cls, file: Path | None, env: Mapping[str, str]) -> Base:
        """The file's folder, or the working folder for a configuration that is not in a file."""
        folder = file.absolute().parent if file else Path.cwd()
        return cls(folder, Path(env["HOME"]) if env.get("HOME") else Path.home())

    def path(self, text: str) -> Path:
        """The absolute path that a text of the file means."""
        if text == "~" or text.startswith("~/"):
            return self.home / text[2:]
        return Path(self.folder / text)

    def weights(self, text: str) -> str:
        """An absolute path, or the hub id as it stands."""
        return text if self.is_hub_id(text) else str(self.path(text))

    def is_hub_id(self, text: str) -> bool:
        """`org/name` (llama.cpp: `org/name:quant`) that is neither a path nor in a folder beside the file."""
        if not _HUB_ID.fullmatch(text) or text.endswith(_FILE_ENDINGS):
            return False
        return all(presence(self.path(name)) == "absent" for name in (text.partition("/")[0], text))
