"""Option types of `bench`: token counts and comma-separated lists."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import click

from gearshift.domain.units import parse_tokens

T = TypeVar("T")


class Tokens(click.ParamType[int]):
    """A token count: ``4096``, ``4k`` (4,000) or ``4K`` (4,096); at least one."""

    name = "tokens"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return at_least_one(parse_tokens(value if isinstance(value, int) else str(value)))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Several(click.ParamType[tuple[T, ...]], Generic[T]):
    """Values between commas, each read by ``read``, which raises ValueError."""

    def __init__(self, name: str, read: Callable[[str], T]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[T, ...]:
        if isinstance(value, tuple):
            return value
        try:
            found = tuple(self._read(part.strip()) for part in str(value).split(",") if part.strip())
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return found or self.fail(f"{value!r} names nothing", param, ctx)


class JsonObject(click.ParamType[dict[str, Any]]):
    """A JSON object, such as further keys of a request."""

    name = "json"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        try:
            found = json.loads(str(value))
        except ValueError as error:
            self.fail(f"{value!r} is no JSON: {error}", param, ctx)
        return found if isinstance(found, dict) else self.fail(f"{value!r} is no JSON object", param, ctx)


def at_least_one(count: int) -> int:
    """The count. Raises ValueError for one below 1."""
    if count < 1:
        msg = f"{count} is less than one"
        raise ValueError(msg)
    return count


def share(text: str) -> float:
    """A number from 0 to 1. Raises ValueError."""
    value = float(text)
    if not 0 <= value <= 1:
        msg = f"{text} is not between 0 and 1"
        raise ValueError(msg)
    return value


DEPTHS = Several("depths", lambda text: at_least_one(parse_tokens(text)))
LEVELS = Several("levels", lambda text: at_least_one(int(text)))
SHARES = Several("shares", share)
NAMES = Several("names", str)
