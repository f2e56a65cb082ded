"""Request bodies in each dialect, encoded once, before any clock starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from gearshift.bench.sample import Call

Dialect = Literal["chat", "completions", "responses"]

_PATH: Mapping[Dialect, str] = {
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "responses": "/v1/responses",
}
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked of the server in every request of a cell.

    ``exact`` makes the answer exactly ``output`` tokens long by ``ignore_eos``, which vLLM and llama-server know; it
    runs past the natural end of the text, so acceptance figures should be read from answers that are not exact.
    """

    model: str
    output: int
    dialect: Dialect = "chat"
    exact: bool = True
    usage: bool = True  # ask for it by ``stream_options``, which some servers refuse
    temperature: float = 0.0
    extra: Mapping[str, object] = field(default_factory=dict)  # further keys of the body

    def call(self, prompt: str | Sequence[int], *, prompt_tokens: int | None = None, label: str = "") -> Call:
        """The request for ``prompt``; token ids are possible in the completions dialect only.

        Raises:
            ValueError: token ids for a dialect that takes text.
        """
        if not isinstance(prompt, str) and self.dialect != "completions":
            msg = f"the {self.dialect} dialect takes text, not token ids; use completions"
            raise ValueError(msg)
        body = {"model": self.model, "stream": True, "temperature": self.temperature}
        body |= self._shape(prompt)
        if self.exact:
            body["ignore_eos"] = True
        return Call(_PATH[self.dialect], _encode(body | dict(self.extra)), prompt_tokens, label)

    def _shape(self, prompt: str | Sequence[int]) -> dict[str, object]:
        usage: dict[str, object] = {"stream_options": {"include_usage": True}} if self.usage else {}
        if self.dialect == "chat":
            return {"messages": [{"role": "user", "content": prompt}], "max_tokens": self.output} | usage
        if self.dialect == "completions":
            return {"prompt": prompt, "max_tokens": self.output} | usage
        return {"input": prompt, "max_output_tokens": self.output}
