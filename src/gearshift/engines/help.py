"""Reading a server's ``--help`` into a flag map."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gearshift.domain.engine import Flag, FlagMap
from gearshift.domain.variant import EngineKind
from gearshift.engines.flags import flag_map

_GONE = "the argument has been removed"  # llama.cpp still lists such flags, only to refuse them
_OPTION = re.compile(r",\s+(?=--?[A-Za-z])")  # between the names of one flag
_VALUE_SET = re.compile(r"[\[{(<]([\w.+-]+(?:\s*[|,]\s*[\w.+-]+)+)[\]})>]")
_ALLOWED = re.compile(r"allowed values: ([\w, ]+)")


def parse_help(kind: EngineKind, version: str | None, text: str) -> FlagMap:
    """The flags that a ``llama-server --help`` or a vLLM ``--help=all`` text lists, marked verified.

    Raises ValueError when the text lists none, as when the binary printed an error instead.
    """
    flags = tuple(_llamacpp_flags(text) if kind == "llama.cpp" else _argparse_flags(text))
    if not flags:
        msg = f"no flags in the help text of {kind} {version or '(unknown version)'}: {text.strip()[:120]!r}"
        raise ValueError(msg)
    return flag_map(kind, version, flags, verified=True)


def _llamacpp_flags(text: str) -> Iterator[Flag]:
    for head, description in _entries(text, indent=""):
        if _GONE not in description:
            yield _llamacpp_flag(head, description)


def _llamacpp_flag(head: str, description: str) -> Flag:
    *dashed, last = _OPTION.split(head)
    option, _, hint = last.partition(" ")
    dashed.append(option)
    plain = [name.lstrip("-") for name in dashed]
    name = next((name.lstrip("-") for name in dashed if name.startswith("--")), plain[0])
    return Flag(
        name=name,
        aliases=tuple(alias for alias in plain if alias != name),
        takes_value=bool(hint),
        repeatable="," in hint and hint[0] not in "{[",
        choices=_llamacpp_choices(hint, description),
        negations=_llamacpp_negations(dashed),
    )


def _llamacpp_choices(hint: str, description: str) -> tuple[str, ...]:
    if allowed := _ALLOWED.search(description):
        return tuple(part.strip() for part in allowed[1].split(",") if part.strip())
    if ".." in hint:  # <dev1,dev2,..> and N0,N1,... show a form, not the values
        return ()
    if listed := _VALUE_SET.search(hint):
        return tuple(re.split(r"\s*[|,]\s*", listed[1]))
    bare = hint.split(",")  # --spec-type none,draft-simple,...: the value set itself stands for the value
    return tuple(bare) if len(bare) > 3 and all(part.islower() for part in bare) else ()  # noqa: PLR2004 - a real list


def _llamacpp_negations(dashed: list[str]) -> tuple[str, ...]:
    """``-kvo, --kv-offload, -nkvo, --no-kv-offload``: whatever follows the first long name and begins with an n."""
    first_long = next((index for index, option in enumerate(dashed) if option.startswith("--")), len(dashed))
    off = [option.lstrip("-") for option in dashed[first_long + 1 :] if option.lstrip("-").startswith("n")]
    return tuple(off) if any(option.startswith("no-") for option in off) else ()


def _argparse_flags(text: str) -> Iterator[Flag]:
    for head, _ in _entries(text.partition("\noptions:")[2], indent="  "):
        flag = _argparse_flag([option.partition(" ") for option in _OPTION.split(head)])
        if flag.name != "help":
            yield flag


def _argparse_flag(options: list[tuple[str, str, str]]) -> Flag:
    plain = [option.lstrip("-") for option, _, _ in options]
    hint = next((hint for _, _, hint in options if hint), "")
    name = next((option.lstrip("-") for option, _, _ in options if option.startswith("--")), plain[0])
    return Flag(
        name=name,
        aliases=tuple(alias for alias in plain if alias != name),
        takes_value=bool(hint),
        repeatable="..." in hint,
        choices=_argparse_choices(hint),
        value_optional=hint.startswith("[") and not hint.startswith("['"),
        negations=tuple(alias for alias in plain if alias == f"no-{name}"),
    )


def _argparse_choices(hint: str) -> tuple[str, ...]:
    """``{a,b}``. Open sets have none: ``['a', 'b']`` (vLLM takes any string there), ``{a,b} or name registered in``."""
    return tuple(hint[1 : hint.index("}")].split(",")) if hint.startswith("{") and "} or" not in hint else ()


def _entries(text: str, *, indent: str) -> Iterator[tuple[str, str]]:
    """Pairs of option line and description; two blanks end the options where both share a line."""
    head, description = "", ""
    begin = re.compile(rf"{indent}--?[A-Za-z]")
    for line in text.splitlines():
        if begin.match(line):
            if head:
                yield head, description
            head, _, description = _split_columns(line.removeprefix(indent))
        elif head:
            description += " " + line.strip()
    if head:
        yield head, description


def _split_columns(line: str) -> tuple[str, str, str]:
    """Options and the start of the description. A short option is padded with blanks too: ``-c,    --ctx-size N``."""
    match = re.search(r"(?<=[^,\s])\s{2,}", line)
    return (line[: match.start()], match[0], line[match.end() :]) if match else (line, "", "")
