"""Recognises llama-server and vLLM in a command line and reads its flags by the packaged flag tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from gearshift.advice.importers.native import FlagValue
from gearshift.domain.engine import Flag
from gearshift.domain.variant import EngineKind
from gearshift.engines import packaged_flags
from gearshift.engines.flags import find_flag, plain_name

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_NUMBER = re.compile(r"-\d+(\.\d+)?")
_LLAMA_SERVER = frozenset({"llama-server", "llama-server.exe"})
_VLLM_MODULE = "vllm.entrypoints.openai.api_server"
_PYTHON = re.compile(r"python(\d(\.\d+)?)?")


@dataclass(slots=True)
class CommandLine:
    """A command line taken apart. ``path`` is the user's own installation, None for what is on PATH."""

    kind: EngineKind
    path: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    flags: dict[str, FlagValue] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    stray: list[str] = field(default_factory=list)  # words that belong to no flag


def read_command_line(words: Sequence[str]) -> CommandLine:
    """The engine, its installation, its environment and flags; kind `command` for anything not recognised."""
    env, rest = _environment(words)
    engine = _engine(rest)
    if engine is None:
        return CommandLine("command", env=env)
    kind, path, arguments = engine
    line = CommandLine(kind, path, env)
    read_flags(line, arguments)
    if kind == "vllm" and line.stray and "model" not in line.flags:
        line.flags["model"] = line.stray.pop(0)
    return line


def read_flags(line: CommandLine, words: Sequence[str]) -> None:
    """Add flags to the line, under canonical names where the packaged table knows them."""
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if not _is_flag(word):
            line.stray.append(word)
            continue
        name, equals, attached = word.partition("=")
        flag = _lookup(line.kind, name)
        values = [attached] if equals else list(_values(flag, words[position:]))
        position += 0 if equals else len(values)
        add_flag(line, name, values)


def add_flag(line: CommandLine, name: str, values: Sequence[str]) -> None:
    """One flag with its values; given again, an engine's list grows and anything else is replaced."""
    flag = _lookup(line.kind, name)
    plain = plain_name(name)
    if flag is None:
        line.unknown.append(plain)
    canonical = plain if flag is None or "." in plain else flag.name
    if not values:
        line.flags[canonical] = flag is None or plain not in flag.negations
    elif len(values) > 1 or (flag is not None and flag.repeatable and canonical in line.flags):
        before = line.flags.get(canonical, [])
        line.flags[canonical] = [*(before if isinstance(before, list) else [str(before)]), *values]
    else:
        line.flags[canonical] = values[0]


def _lookup(kind: EngineKind, name: str) -> Flag | None:
    return find_flag(packaged_flags(kind), name)


def _values(flag: Flag | None, following: Sequence[str]) -> Iterator[str]:
    """The words after a flag that are its own; of a flag that no table knows, one if it does not look like a flag."""
    if flag is not None and not flag.takes_value:
        return
    for count, word in enumerate(following):
        several = flag is not None and flag.repeatable and flag.name == "served-model-name"
        if _is_flag(word) or (count and not several):
            return
        yield word


def _is_flag(word: str) -> bool:
    return word.startswith("-") and len(word) > 1 and not _NUMBER.fullmatch(word)


def _environment(words: Sequence[str]) -> tuple[dict[str, str], Sequence[str]]:
    """`env A=1 B=2 program ...`, as files without a shell have to write it."""
    rest = list(words)
    env: dict[str, str] = {}
    if rest and PurePosixPath(rest[0]).name == "env":
        rest.pop(0)
    while rest and _ASSIGNMENT.match(rest[0]):
        name, _, value = rest.pop(0).partition("=")
        env[name] = value
    return env, rest


def _engine(words: Sequence[str]) -> tuple[EngineKind, str | None, Sequence[str]] | None:
    if not words:
        return None
    program = PurePosixPath(words[0])
    own = words[0] if "/" in words[0] else None
    if program.name in _LLAMA_SERVER:
        return "llama.cpp", own, words[1:]
    if program.name == "vllm" and words[1:2] == ["serve"]:
        return "vllm", _environment_folder(program) if own else None, words[2:]
    if _PYTHON.fullmatch(program.name) and list(words[1:3]) == ["-m", _VLLM_MODULE]:
        return "vllm", _environment_folder(program) if own else None, words[3:]
    return None


def _environment_folder(program: PurePosixPath) -> str:
    """The virtual environment that a program lies in, or the program's own folder."""
    folder = program.parent
    return str(folder.parent if folder.name == "bin" else folder)
