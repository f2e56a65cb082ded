"""llama-server's router presets: an INI file with a section per model and `[*]` for all."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from gearshift.advice.importers.command_line import CommandLine, add_flag
from gearshift.advice.importers.imported import VARIANT, Imported, imported, literal
from gearshift.advice.importers.native import native_variant
from gearshift.domain.errors import ConfigError, Problem
from gearshift.engines import packaged_flags
from gearshift.engines.flags import find_flag

_GLOBAL = "*"
_HEAD = ""  # keys above the first section: the format's version
_SECTION = re.compile(r"\[([^\]]+)\]")
_TRUE = frozenset({"true", "on", "yes", "1", "enabled"})
_FALSE = frozenset({"false", "off", "no", "0", "disabled"})
_PRESET_KEYS = ("load-on-startup", "stop-timeout", "dedup-cache-models")


def import_ini_presets(text: str, *, file: Path | None = None) -> Imported:
    """Carry llama-server presets over. Raises ConfigError when the text is not such an INI file."""
    sections = _sections(text, file)
    common = sections.pop(_GLOBAL, {})
    head = sections.pop(_HEAD, {})
    notes = [f"{key}: stands above every section and was left out" for key in head if key != "version"]
    models: dict[str, object] = {}
    preload: list[object] = []
    for name, own in sections.items():
        values = {**common, **own}
        models[name] = {"variants": {VARIANT: _variant(name, values, notes)}}
        if values.get("load-on-startup", "").lower() in _TRUE:
            preload.append(name)
    tree: dict[str, object] = {"listen": "127.0.0.1:8080", "models": models}
    if preload:
        tree["preload"] = preload
    notes.append("models stay together wherever their memory fits, instead of up to --models-max at once")
    return imported("llama-server presets", tree, notes)


def _variant(name: str, values: Mapping[str, str], notes: list[str]) -> dict[str, object]:
    line = CommandLine("llama.cpp")
    for key, value in values.items():
        if key not in _PRESET_KEYS:
            _add(line, key, value)
    line.flags.setdefault("model", line.flags.pop("hf-repo", name))
    draft = native_variant("llama.cpp", line.flags)
    notes += [f"{name}: {note}" for note in draft.notes]
    if unknown := ", ".join(flag for flag in line.unknown if flag in draft.flags):
        notes.append(f"{name}: llama.cpp has no flag {unknown} that we know of; kept, to be judged by config check")
    if "dedup-cache-models" in values:
        notes.append(f"{name}: dedup-cache-models has no counterpart")
    fields = {"engine": "llama.cpp", **{key: literal(value) for key, value in draft.fields.items()}}
    if seconds := values.get("stop-timeout", ""):
        fields["stop_grace"] = f"{seconds}s" if seconds.isdigit() else "15s"
    return fields


def _add(line: CommandLine, key: str, value: str) -> None:
    """Keys are flags without dashes, or the variables that llama-server reads them from."""
    name = key.removeprefix("LLAMA_ARG_").lower().replace("_", "-") if key.startswith("LLAMA_ARG_") else key
    flag = find_flag(packaged_flags("llama.cpp"), name)
    word = value.lower()
    if flag is not None and not flag.takes_value and word in _TRUE | _FALSE:
        line.flags[flag.name] = (word in _TRUE) != (name in flag.negations)
    else:
        add_flag(line, name, [] if not value or (flag is None and word in _TRUE) else [value])


def _sections(text: str, file: Path | None) -> dict[str, dict[str, str]]:
    """The values of each section; a key without `=` has an empty one. No line is a continuation of the one before."""
    sections: dict[str, dict[str, str]] = {_HEAD: {}}
    problems: list[Problem] = []
    name = _HEAD
    for number, line in enumerate(text.splitlines(), start=1):
        if not (entry := line.strip()) or entry[0] in "#;":
            continue
        if header := _SECTION.fullmatch(entry):
            name = header[1]
            wrong = f"section [{name}] is given twice" if name in sections else None
            sections.setdefault(name, {})
        else:
            wrong = _take(sections[name], entry)
        if wrong:
            problems.append(Problem(wrong, f"[{name}]" if name != _HEAD else "", number, file=file))
    if problems:
        raise ConfigError(tuple(problems))
    return sections


def _take(section: dict[str, str], entry: str) -> str | None:
    """Add a line's key and value to its section, or say what is wrong with it."""
    key, _, value = (part.strip() for part in entry.partition("="))
    if not key or key.startswith("["):
        return "neither a section nor a key"
    if key in section:
        return f"key {key!r} is given twice"
    section[key] = value
    return None
