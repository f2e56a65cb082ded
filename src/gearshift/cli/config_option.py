"""The option --config, the same in every verb that takes a configuration besides its own arguments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click


def config_option(text: str = "The configuration.") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """``--config``/``-c FILE``, else ``GEARSHIFT_CONFIG``; the verb decides what it means to name none."""
    return click.option(
        "--config", "-c", type=click.Path(path_type=Path), envvar="GEARSHIFT_CONFIG", metavar="FILE", help=text
    )
