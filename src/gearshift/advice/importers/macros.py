"""llama-swap's macros: `${name}` from `macros:`, `${env.NAME}`, and the reserved PORT, MODEL_ID and PID."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_MACRO = re.compile(r"\$\{([A-Za-z_][\w.-]*)\}")
_ROUNDS = 10  # a macro may use those before it; deeper nesting than this is a circle
_RESERVED = {"PORT": "${port}"}


@dataclass(slots=True)
class Macros:
    """Expands text with the macros of one model over the global ones; ``unknown`` collects what none of them is."""

    values: Mapping[str, str]
    unknown: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, *layers: object, model: str) -> Macros:
        """Later layers win; what is not a mapping of scalars is passed over."""
        values: dict[str, str] = {"MODEL_ID": model, **_RESERVED}
        for layer in layers:
            if isinstance(layer, dict):
                values |= {str(name): scalar_text(value) for name, value in layer.items()}
        return cls(values)

    def expand(self, text: str) -> str:
        """The text with our placeholders where ours mean the same; an unknown macro stays as it is."""
        for _ in range(_ROUNDS):
            expanded = _MACRO.sub(self._value, text)
            if expanded == text:
                break
            text = expanded
        return text

    def _value(self, match: re.Match[str]) -> str:
        name = match[1]
        if name.startswith("env."):
            return f"${{env:{name.removeprefix('env.')}}}"
        if name not in self.values and name != "port":
            self.unknown.add(name)
        return self.values.get(name, match[0])


def scalar_text(value: object) -> str:
    """A macro's value as llama-swap pastes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
