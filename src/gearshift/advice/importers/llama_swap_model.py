"""One model of a llama-swap file."""

from __future__ import annotations

import re
import shlex
from typing import cast

from gearshift.advice.importers.command_line import CommandLine, read_command_line
from gearshift.advice.importers.imported import VARIANT, literal, literal_text
from gearshift.advice.importers.macros import Macros
from gearshift.advice.importers.native import native_variant
from gearshift.config.writing import flow

_CONTINUED = re.compile(r"\\\r?\n")
_COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)
_OWN_PORT = re.compile(r"https?://(localhost|127\.0\.0\.1|\[::1\]):\$\{port\}/?")

_NOTES = {
    "name": "name: is not listed",
    "description": "description: is not listed",
    "metadata": "metadata: is not listed",
    "capabilities": "capabilities: has no counterpart",
    "unlisted": "unlisted: every model is listed",
    "timeouts": "timeouts: streams have no time limit; loads have load_timeout and stall_timeout",
    "compat": "compat: has no counterpart",
    "sendLoadingState": "sendLoadingState: a waiting stream gets comment lines instead of reasoning text",
    "healthCheckTimeout": "healthCheckTimeout: was never used for one model; load_timeout: would be",
}
_KNOWN = frozenset(
    {
        "cmd", "cmdStop", "proxy", "checkEndpoint", "ttl", "unloadTimeout", "env", "aliases", "useModelName", "filters",
        "concurrencyLimit", "macros",
    }
)  # fmt: skip


class TheirModel:
    """A model as llama-swap describes it; ``notes`` fill while the section is made."""

    def __init__(self, name: str, tree: dict[str, object], global_macros: object) -> None:
        self.name = name
        self.tree = tree
        self.notes: list[str] = []
        self.macros = Macros.of(global_macros, tree.get("macros"), model=name)

    @property
    def aliases(self) -> list[str]:
        aliases = self.tree.get("aliases")
        return [str(alias) for alias in aliases] if isinstance(aliases, list) else []

    def section(self) -> dict[str, object]:
        """Our model section with its one variant."""
        variant = self._variant()
        section: dict[str, object] = {"aliases": self.aliases} if self.aliases else {}
        section["variants"] = {VARIANT: variant}
        self.notes += [note for key, note in _NOTES.items() if key in self.tree]
        strangers = [key for key in self.tree if key not in _KNOWN and key not in _NOTES]
        self.notes += [f"{key}: is not known and was left out" for key in strangers]
        self.notes += [
            f"${{{name}}} is no macro of the file; it is left as text" for name in sorted(self.macros.unknown)
        ]
        return section

    def _variant(self) -> dict[str, object]:
        words = self._words("cmd")
        line = read_command_line(words)
        line.env |= self._env()
        native = self._native(line) if line.kind != "command" else None
        if native is None:
            native = self._command(words)
        return native | self._waits() | self._request_edits(line)

    def _native(self, line: CommandLine) -> dict[str, object] | None:
        """None when something in it needs a shell's or a fixed port's help, so that the command is kept as it is."""
        draft = native_variant(line.kind, line.flags)
        if "weights" not in draft.fields or line.stray or "${port}" in flow([draft.fields, line.env]):
            self.notes.append("its command line was not understood in full, so it is kept as a command")
            return None
        self.notes += draft.notes
        engine = f"{line.kind}@{line.path}" if line.path else line.kind
        fields = {"engine": engine, **draft.fields, **self._visible_gpus(line, draft.fields)}
        if unknown := ", ".join(name for name in line.unknown if name in draft.flags):
            self.notes.append(f"{line.kind} has no flag {unknown} that we know of; kept, to be judged by config check")
        if self.tree.get("cmdStop"):
            self.notes.append("cmdStop: is dropped; the engine's whole process tree is stopped and verified")
        if self._text("checkEndpoint") not in {"", "/health"}:
            self.notes.append("checkEndpoint: is dropped; readiness is the engine's health answer and one token")
        return cast("dict[str, object]", literal(fields))

    def _visible_gpus(self, line: CommandLine, fields: dict[str, object]) -> dict[str, object]:
        """A CUDA_VISIBLE_DEVICES of plain indices is what `gpus:` says."""
        visible = line.env.get("CUDA_VISIBLE_DEVICES", "").split(",")
        if all(part.strip().isdigit() for part in visible):
            del line.env["CUDA_VISIBLE_DEVICES"]
            self.notes.append("CUDA_VISIBLE_DEVICES became gpus:, which counts as nvidia-smi does")
            chosen = [int(part) for part in visible]
            within = fields.get("gpus")
            if isinstance(within, list) and all(isinstance(gpu, int) and gpu < len(chosen) for gpu in within):
                chosen = [chosen[gpu] for gpu in within]
            return {"gpus": chosen} | ({"env": line.env} if line.env else {})
        return {"env": line.env} if line.env else {}

    def _command(self, words: list[str]) -> dict[str, object]:
        variant: dict[str, object] = {"engine": "command", "command": [literal_text(word) for word in words]}
        if stop := self._words("cmdStop"):
            variant["stop"] = [literal_text(word) for word in stop]
        if env := self._env():
            variant["env"] = literal(env)
        proxy = self._text("proxy")
        if proxy and not _OWN_PORT.fullmatch(proxy):
            variant["upstream"] = literal_text(proxy)
        check = self._text("checkEndpoint") or "/health"
        variant["probe"] = "none" if check == "none" else f"http:/{check.lstrip('/')}"
        if name := self._text("useModelName"):
            variant["args"] = {"served-model-name": literal_text(name)}
        self.notes.append(
            "memory: is not declared, so it shares a device with nobody; declare it to keep others beside it"
        )
        return variant

    def _waits(self) -> dict[str, object]:
        waits: dict[str, object] = {}
        if (ttl := self._whole("ttl")) is not None:
            waits["idle"] = {"unload_after": f"{ttl}s" if ttl else "off"}
        if grace := self._whole("unloadTimeout"):
            waits["stop_grace"] = f"{grace}s"
        if limit := self._whole("concurrencyLimit"):
            waits["queue_limit"] = limit
            self.notes.append("concurrencyLimit: became queue_limit:, which counts waiting requests only")
        return waits

    def _request_edits(self, line: CommandLine) -> dict[str, object]:
        filters = self.tree.get("filters")
        filters = filters if isinstance(filters, dict) else {}
        edits: dict[str, object] = {}
        stripped = filters.get("stripParams", filters.get("strip_params"))
        if isinstance(stripped, str) and (names := [name.strip() for name in stripped.split(",") if name.strip()]):
            edits["drop"] = [name for name in names if name != "model"]
        if isinstance(forced := filters.get("setParams"), dict):
            edits["force"] = {key: value for key, value in forced.items() if key != "model"}
        if "setParamsByID" in filters:
            self.notes.append(
                "filters.setParamsByID: write a variant for each id, with extends: and filters: {force: ...}"
            )
        if line.kind != "command" and self._text("useModelName"):
            self.notes.append("useModelName: is dropped; the engine is always asked under the name it serves")
        return {"filters": literal(edits)} if edits else {}

    def _env(self) -> dict[str, str]:
        given = self.tree.get("env")
        pairs = [self.macros.expand(str(entry)).partition("=") for entry in given] if isinstance(given, list) else []
        return {name: value for name, equals, value in pairs if equals}

    def _whole(self, key: str) -> int | None:
        """A count or seconds; None where there is none, or where it stands for the global setting (-1)."""
        value = self.tree.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None

    def _text(self, key: str) -> str:
        value = self.tree.get(key)
        return self.macros.expand(value) if isinstance(value, str) else ""

    def _words(self, key: str) -> list[str]:
        text = _CONTINUED.sub(" ", _COMMENT.sub("", self._text(key)))
        try:
            return shlex.split(text)
        except ValueError as error:
            self.notes.append(f"{key}: cannot be split into words ({error}); split at blanks instead")
            return text.split()
