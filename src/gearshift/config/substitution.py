"""`${env:NAME}` in any string of the file; `${port}` is left for the launch; `$${` writes a literal `${`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from gearshift.config.document import Document
from gearshift.config.keypath import KeyPath
from gearshift.domain.errors import Problem

PORT = "${port}"

_PLACEHOLDER = re.compile(r"\$?\$\{([^{}]*)\}")


@dataclass(slots=True)
class Substitution:
    """Fills the placeholders of a document; ``problems`` tells which could not be."""

    env: Mapping[str, str]
    document: Document
    problems: list[Problem] = field(default_factory=list)

    def apply(self) -> dict[str, object]:
        """The document's tree with every string filled in."""
        return {key: self._filled(value, (key,)) for key, value in self.document.tree.items()}

    def _filled(self, value: object, path: KeyPath) -> object:
        if isinstance(value, dict):
            return {key: self._filled(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self._filled(item, (*path, position)) for position, item in enumerate(value)]
        return self._text(value, path) if isinstance(value, str) and "${" in value else value

    def _text(self, text: str, path: KeyPath) -> str:
        return _PLACEHOLDER.sub(lambda match: self._value_of(match, path), text)

    def _value_of(self, match: re.Match[str], path: KeyPath) -> str:
        whole, name = match[0], match[1]
        if whole.startswith("$$"):
            return whole[1:]
        if whole == PORT:
            return whole
        if not name.startswith("env:"):
            hint = (
                "write ${port}" if name.lower() == "port" else "there are ${env:NAME} and ${port}; $${ is a literal ${"
            )
            self.problems.append(self.document.problem(path, f"{whole} means nothing here", hint=hint))
        elif (value := self.env.get(name.removeprefix("env:"))) is None:
            hint = f"export {name.removeprefix('env:')} before the start"
            self.problems.append(self.document.problem(path, f"{whole} is not set", hint=hint))
        else:
            return value
        return whole
