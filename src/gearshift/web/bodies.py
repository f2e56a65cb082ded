"""What clients send to the admin API. Answers are the domain's own dataclasses, so their fields are the contract."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from gearshift.domain.admin import LONGEST_LEASE_S
from gearshift.domain.units import parse_duration

MIN_TTL_S, MAX_TTL_S = 1.0, LONGEST_LEASE_S


def _bounded_duration(value: object) -> float:
    """Seconds between MIN_TTL_S and MAX_TTL_S from a number or text; ValueError names the value."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        msg = f'{value!r} is not a duration; write for example 300 or "5m"'
        raise ValueError(msg)  # noqa: TRY004 - pydantic collects ValueError, a TypeError would end the validation
    seconds = parse_duration(value)
    if not MIN_TTL_S <= seconds <= MAX_TTL_S:
        msg = f"{value!r} is outside {MIN_TTL_S:g} s to {MAX_TTL_S:g} s"
        raise ValueError(msg)
    return seconds


_TtlInput = (
    Annotated[float, Field(ge=MIN_TTL_S, le=MAX_TTL_S)]
    | Annotated[str, Field(pattern=r"^([1-9][0-9]{0,3}s|[1-9][0-9]{0,2}m|[1-9]h|1[0-9]h|2[0-4]h)$")]
)
# The pattern is what the description promises; parse_duration takes more, such as "1h30m".
Ttl = Annotated[float, BeforeValidator(_bounded_duration, json_schema_input_type=_TtlInput)]


class Body(BaseModel):
    """Unknown keys are refused by name: a misspelt option must not be ignored."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Nothing(Body):
    """No parameters, or no body."""


class LeaseRequest(Body):
    """A lease to take. ``ttl`` is seconds, or text such as "10m"."""

    variant: Annotated[str, Field(min_length=1, description="Variant id, such as qwen3.6-27b:int4")]
    exclusive: bool = False
    ttl: Ttl = 300.0


class RenewRequest(Body):
    """A renewal; without ``ttl`` the lease's own is used again."""

    ttl: Ttl | None = None


class JobRequest(Body):
    """A gearshift verb with its arguments, run as a child process of the server."""

    argv: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1, max_length=200)]


class Query(BaseModel):
    """Query strings are text, so their values are converted."""

    model_config = ConfigDict(extra="forbid")


class NoQuery(Query):
    """Takes no parameters."""


class LogQuery(Query):
    """The last ``tail`` lines; with ``follow`` the answer stays open and new lines come as they are written."""

    tail: Annotated[int, Field(ge=0, le=100_000)] = 200
    follow: bool = False


class HoldQuery(Query):
    """With ``hold`` the answer stays open, renews the lease, and ends it when the connection ends."""

    hold: bool = False


class EventQuery(Query):
    """Events newer than this id; the Last-Event-ID header means the same and wins."""

    after: Annotated[int, Field(ge=0, lt=10**18)] | None = None
