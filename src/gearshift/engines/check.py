"""Checking a variant's flags against an engine version before anything starts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gearshift.domain.engine import Flag, FlagMap
from gearshift.domain.errors import Problem
from gearshift.domain.spelling import near
from gearshift.domain.variant import ArgValue, Variant
from gearshift.engines.check_speculation import speculation_problems
from gearshift.engines.flags import find_flag, plain_name
from gearshift.engines.renames import GONE_FLAGS, GONE_VARIABLES, NEUTRAL_FIELDS, OWNED_FLAGS

_UNVERIFIED = "not verified against a binary"


@dataclass(frozen=True, slots=True)
class _Finding:
    """A finding before it is known whether the flag map may be trusted: ``certain`` ones do not depend on it."""

    place: str
    message: str
    hint: str | None = None
    certain: bool = False


def check(variant: Variant, flags: FlagMap, place: str) -> tuple[Problem, ...]:
    """Everything wrong with a variant's args, env, speculation and cache type for the engine that ``flags`` describes.

    ``place`` is the variant's dotted place in the file. What only the flag map says is a warning unless the map was
    read from a binary; what holds for any version is an error either way.
    """
    return tuple(_problem(finding, flags) for finding in _findings(variant, flags, place))


def _problem(finding: _Finding, flags: FlagMap) -> Problem:
    if finding.certain or flags.verified:
        return Problem(finding.message, finding.place, hint=finding.hint)
    hint = f"{finding.hint}; {_UNVERIFIED}" if finding.hint else _UNVERIFIED
    return Problem(finding.message, finding.place, hint=hint, severity="warning")


def _findings(variant: Variant, flags: FlagMap, place: str) -> Iterator[_Finding]:
    if flags.kind == "command":
        yield from _command_args(variant, place)
        return
    for name, value in variant.args.items():
        yield from _argument(flags, name, value, f"{place}.args.{name}")
    yield from _repeats(variant, flags, place)
    yield from _neutral(variant, flags, place)
    yield from _environment(variant, flags, place)
    for key, message, hint in speculation_problems(variant, flags):
        yield _Finding(f"{place}.{key}", message, hint)
    yield from _cache_type(variant, flags, place)
    yield from _sleep(variant, flags, place)


def _command_args(variant: Variant, place: str) -> Iterator[_Finding]:
    for name in variant.args:
        if name != "served-model-name":
            hint = "write it into command; only served-model-name, the id the server answers to, goes here"
            yield _Finding(f"{place}.args.{name}", f"a command variant takes no flag {name}", hint, certain=True)


def _argument(flags: FlagMap, name: str, value: ArgValue, place: str) -> Iterator[_Finding]:
    plain = plain_name(name)
    flag = find_flag(flags, name)
    owned = OWNED_FLAGS[flags.kind].get(flag.name if flag else plain)
    if owned:
        yield _Finding(place, f"{name} cannot be set in args", owned, certain=True)
    elif flag is None:
        yield _unknown(flags, plain, place)
    elif "." not in plain:
        yield from _value(flag, plain, value, place)


def _unknown(flags: FlagMap, name: str, place: str) -> _Finding:
    engine = f"{flags.kind} {flags.version or '(unknown version)'}"
    if gone := GONE_FLAGS[flags.kind].get(name):
        return _Finding(place, f"{engine} no longer takes {name}", gone)
    return _Finding(place, f"{engine} has no flag {name}", near(name, flags.flags))


def _value(flag: Flag, name: str, value: ArgValue, place: str) -> Iterator[_Finding]:
    if not flag.takes_value:
        if value is not None and not isinstance(value, bool):
            yield _Finding(place, f"{name} takes no value, {value!r} was given", f"write {name}: true")
        return
    as_switch = isinstance(value, bool) and "on" in flag.choices  # YAML reads a bare `on` as true
    if (value is None or isinstance(value, bool)) and not (as_switch or flag.value_optional):
        yield _Finding(place, f"{name} needs a value", _choices_hint(flag))
        return
    if flag.choices and not as_switch:
        yield from _choice(flag, name, value, place)


def _choice(flag: Flag, name: str, value: ArgValue, place: str) -> Iterator[_Finding]:
    values = value if isinstance(value, tuple) else (value,)
    words = [word for item in values for word in (str(item).split(",") if flag.repeatable else [str(item)])]
    for word in words:
        if word not in flag.choices:
            yield _Finding(place, f"{name} does not take {word!r}", _choices_hint(flag))


def _choices_hint(flag: Flag) -> str | None:
    return f"one of {', '.join(flag.choices)}" if flag.choices else None


def _repeats(variant: Variant, flags: FlagMap, place: str) -> Iterator[_Finding]:
    """A flag under two of its names. Dotted keys of one JSON flag are different settings."""
    seen: dict[str, str] = {}
    for name in variant.args:
        plain = plain_name(name)
        flag = find_flag(flags, name)
        key = plain if flag is None or "." in plain else flag.name
        if key in seen:
            message = f"{name} and {seen[key]} are the same flag"
            yield _Finding(f"{place}.args.{name}", message, "keep one of them", certain=True)
        seen.setdefault(key, name)


def _neutral(variant: Variant, flags: FlagMap, place: str) -> Iterator[_Finding]:
    for name in variant.args:
        flag = find_flag(flags, name)
        field = NEUTRAL_FIELDS[flags.kind].get(flag.name) if flag else None
        if field and getattr(variant, field) is not None:
            message = f"{name} repeats the variant's {field}"
            yield _Finding(f"{place}.args.{name}", message, f"keep {field} and remove {name}", certain=True)


def _environment(variant: Variant, flags: FlagMap, place: str) -> Iterator[_Finding]:
    for name in variant.env:
        if flags.kind == "vllm" and name in GONE_VARIABLES:
            yield _Finding(f"{place}.env.{name}", f"vLLM no longer reads {name}", GONE_VARIABLES[name])
        if flags.kind == "llama.cpp" and name.startswith("LLAMA_ARG_"):
            hint = "write the flag into args, where it is checked"
            yield _Finding(f"{place}.env.{name}", f"{name} sets a flag unseen", hint, certain=True)


def _cache_type(variant: Variant, flags: FlagMap, place: str) -> Iterator[_Finding]:
    flag = find_flag(flags, "kv-cache-dtype" if flags.kind == "vllm" else "cache-type-k")
    if variant.kv_dtype is None or flag is None or not flag.choices:
        return
    types = variant.kv_dtype.split(",") if flags.kind == "llama.cpp" else [variant.kv_dtype]
    for kind in types:
        if kind.strip() not in flag.choices:
            message = f"{flags.kind} {flags.version or ''} has no KV cache type {kind.strip()!r}".replace("  ", " ")
            yield _Finding(f"{place}.kv_dtype", message, _choices_hint(flag))


def _sleep(variant: Variant, flags: FlagMap, place: str) -> Iterator[_Finding]:
    if variant.sleep is None:
        return
    if flags.kind != "vllm":
        hint = "remove sleep, or write args sleep-idle-seconds"
        yield _Finding(f"{place}.sleep", "sleep is vLLM's sleep mode", hint, certain=True)
    elif "expandable_segments" in variant.env.get("PYTORCH_CUDA_ALLOC_CONF", ""):
        message = "sleep mode does not work with expandable_segments"
        yield _Finding(f"{place}.env.PYTORCH_CUDA_ALLOC_CONF", message, "remove the variable or sleep", certain=True)
