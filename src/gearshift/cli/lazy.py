"""A group of verbs that are imported only when they are called, so that `--help` stays fast."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """Verbs by name with their help line; the module ``{package}.{name}`` holds each as ``command``.

    ``modules`` gives the module's name where the verb's own is none, such as ``import``.
    """

    def __init__(
        self,
        *args: Any,
        package: str,
        verbs: Mapping[str, str],
        modules: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.package = package
        self.verbs = verbs
        self.modules = modules or {}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(self.verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in self.verbs:
            return None
        command: click.Command = import_module(f"{self.package}.{self.modules.get(cmd_name, cmd_name)}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's own, which looks for similar names among commands that are loaded."""
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            raise click.exceptions.NoSuchCommand(error.command_name, possibilities=self.verbs, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - likewise
        with formatter.section("Commands"):
            formatter.write_dl(list(self.verbs.items()))
