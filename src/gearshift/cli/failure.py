"""The one place where failures become a message on stderr and an exit status."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import click

from gearshift.cli.exits import Exit
from gearshift.cli.output import explained
from gearshift.domain.errors import ConfigError, GearshiftError


class TimedOutError(GearshiftError):
    """The time that --timeout allowed has passed; exit status 124."""


class Failed(click.ClickException):
    """A GearshiftError on its way out: the message in red, then its hint, each line on stderr."""

    exit_code = Exit.FAILED.value

    def __init__(self, error: GearshiftError) -> None:
        super().__init__(error.message)
        self.error = error

    def show(self, file: IO[Any] | None = None) -> None:
        del file  # stderr, always
        for line in explained(self.error):
            click.echo(line, err=True, color=self.show_color)


class UnusableConfig(Failed):
    """Every problem of a configuration."""

    exit_code = Exit.USAGE.value


class TimedOut(Failed):
    """The time given was not enough."""

    exit_code = Exit.TIMEOUT.value


def _shown(error: GearshiftError) -> Failed:
    if isinstance(error, ConfigError):
        return UnusableConfig(error)
    return TimedOut(error) if isinstance(error, TimedOutError) else Failed(error)


@contextmanager
def shown_failures() -> Iterator[None]:
    """Turns what verbs raise into what click shows: GearshiftError, Ctrl-C, a closed pipe."""
    try:
        yield
    except GearshiftError as error:
        raise _shown(error) from error
    except KeyboardInterrupt:
        raise click.exceptions.Exit(Exit.INTERRUPTED) from None
