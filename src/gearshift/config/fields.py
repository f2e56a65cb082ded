"""Value types of the file: durations, sizes and token counts as people write them, each with its JSON schema."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import isfinite
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from gearshift.domain.units import parse_bytes, parse_duration, parse_tokens

OFF = "off"


def _reader(parse: Callable[[str | float], float], what: str) -> Callable[[object], object]:
    def read(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            msg = f"{json.dumps(value)} is not {what}"
            raise ValueError(msg)  # noqa: TRY004 - pydantic reports ValueError with its place, TypeError it lets through
        try:
            number = parse(value)
        except OverflowError:
            number = float("inf")
        if not isfinite(number):
            msg = f"{value!r} is not {what}"
            raise ValueError(msg)
        return number

    return read


def _or_off(read: Callable[[object], object]) -> Callable[[object], object]:
    def read_or_off(value: object) -> object:
        return None if value is None or value == OFF else read(value)

    return read_or_off


def _above_zero(read: Callable[[object], object], otherwise: str = "") -> Callable[[object], object]:
    def read_above_zero(value: object) -> object:
        number = read(value)
        if number == 0:
            msg = f"{value!r} must be above zero{otherwise}"
            raise ValueError(msg)
        return number

    return read_above_zero


def _one_or_list(value: object) -> object:
    return value if isinstance(value, list) else [value]


_duration = _reader(parse_duration, "a duration")
_wait = _above_zero(_duration)
_wait_or_off = _or_off(_above_zero(_duration, "; write off to switch it off"))
_bytes = _reader(parse_bytes, "a size")

Duration = Annotated[float, BeforeValidator(_duration, json_schema_input_type=float | str)]
OffDuration = Annotated[float | None, BeforeValidator(_or_off(_duration), json_schema_input_type=float | str | None)]
Wait = Annotated[float, BeforeValidator(_wait, json_schema_input_type=float | str)]
OffWait = Annotated[float | None, BeforeValidator(_wait_or_off, json_schema_input_type=float | str | None)]
Bytes = Annotated[int, BeforeValidator(_bytes, json_schema_input_type=int | str)]
KvBytes = Annotated[
    int | Literal["auto"],
    BeforeValidator(lambda value: value if value == "auto" else _bytes(value), json_schema_input_type=int | str),
]
Tokens = Annotated[
    int,
    BeforeValidator(_reader(parse_tokens, "a token count"), json_schema_input_type=int | str),
    Field(gt=0),
]
Text = Annotated[str, BeforeValidator(lambda value: value, json_schema_input_type=str | float | bool | None)]
"""Text that may look like a number: the reader keeps such values as they are written."""
Gpus = Annotated[
    list[int | str],
    BeforeValidator(_one_or_list, json_schema_input_type=int | str | list[int | str]),
]
Command = Annotated[
    list[str] | str,
    Field(description="A list of arguments, or one line split as a shell would; no shell runs it."),
]
