"""The DURATION option type: seconds from "90s", "10m" or a number."""

from __future__ import annotations

import click

from gearshift.domain.units import parse_duration


class Duration(click.ParamType[float]):
    """Converts to seconds; what is no duration is a usage error with the value in it."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return parse_duration(value if isinstance(value, int | float) else str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
