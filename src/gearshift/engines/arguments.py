"""From flags under their own names to an argument list: the user's flags win, none is given twice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gearshift.domain.engine import Flag, FlagMap
from gearshift.domain.variant import ArgValue
from gearshift.engines.flags import find_flag, plain_name

Default = tuple[str, ArgValue]


def arguments(flags: FlagMap, defaults: Iterable[Default], user: Mapping[str, ArgValue]) -> tuple[str, ...]:
    """Gearshift's ``defaults`` in order, then the user's own flags.

    A default is left out when the engine does not know the flag or the user gives it, under whatever alias. A name the
    map lacks is passed on as written: ``check`` has reported it, and the engine's own answer is the better one then.
    """
    given = {_canonical(flags, name) for name in user}
    argv: list[str] = []
    for name, value in defaults:
        flag = find_flag(flags, name)
        if flag is not None and flag.name not in given:
            argv += _render(flags, flag, name, value)
    for name, value in user.items():
        argv += _render(flags, find_flag(flags, name), name, value)
    return tuple(argv)


def given_value(flags: FlagMap, user: Mapping[str, ArgValue], name: str) -> ArgValue | None:
    """What the user gave for the flag ``name``, under whatever alias; None when it is not given."""
    canonical = _canonical(flags, name)
    return next((value for key, value in user.items() if _canonical(flags, key) == canonical), None)


def _canonical(flags: FlagMap, name: str) -> str:
    flag = find_flag(flags, name)
    return flag.name if flag else plain_name(name)


def _render(flags: FlagMap, flag: Flag | None, name: str, value: ArgValue) -> list[str]:
    option = f"--{_spelling(flag, plain_name(name))}"
    if value is None:
        return [option]
    if flag is not None and isinstance(value, bool) and (flag.value_optional or not flag.takes_value):
        return _switch(flag, option, on=value)
    values = value if isinstance(value, tuple) else (value,)
    words = [_word(flag, item) for item in values]
    if flags.kind == "llama.cpp":  # its lists are comma lists
        words = [",".join(words)]
    if len(words) == 1 and words[0].startswith("-"):  # "--flag -1" reads as two options to argparse
        return [option, words[0]] if flags.kind == "llama.cpp" else [f"{option}={words[0]}"]
    return [option, *words]


def _spelling(flag: Flag | None, name: str) -> str:
    """The flag's long name; a negation or a dotted JSON key as it was written."""
    if flag is None or name in flag.negations:
        return name
    _, dot, key = name.partition(".")
    return flag.name + dot + key if dot else flag.name


def _switch(flag: Flag, option: str, *, on: bool) -> list[str]:
    """True gives the option itself; False its negation, or nothing where it has none."""
    if on:
        return [option]
    off = next((name for name in flag.negations if name.startswith("no-")), None)
    return [f"--{off}"] if off and option == f"--{flag.name}" else []


def _word(flag: Flag | None, value: str | float) -> str:
    """A value as the engine reads it. YAML turns a bare ``on`` into True, so a switch-like choice is turned back."""
    if isinstance(value, bool):
        if flag is not None and "on" in flag.choices:
            return "on" if value else "off"
        return "true" if value else "false"
    return str(value)
