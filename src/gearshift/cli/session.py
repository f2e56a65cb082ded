"""What a verb is given: the environment, the output sink, and the server it talks to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import click

from gearshift.cli.client import AdminClient, ServerAddress
from gearshift.cli.output import Output
from gearshift.domain.paths import Paths, resolve_paths


@dataclass
class Session:
    """One run of the command line."""

    env: Mapping[str, str]
    output: Output
    url: str | None = None

    @cached_property
    def paths(self) -> Paths:
        return resolve_paths(self.env)

    @cached_property
    def admin(self) -> AdminClient:
        """The admin API of the server meant: at --url, else behind the admin socket."""
        if self.url:
            return AdminClient(ServerAddress.at(self.url, self.env.get("GEARSHIFT_OPERATOR_KEY")))
        return AdminClient(ServerAddress.behind(self.paths))


pass_session = click.make_pass_decorator(Session)
