"""`gearshift completion`: scripts for the shells that click knows."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from gearshift.cli.session import Session, pass_session


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
@pass_session
def command(session: Session, ctx: click.Context, shell: str) -> None:
    """Print a shell completion script.

    Variants are completed from the running server. To have it in every new shell, write it to:

    \b
    bash  ~/.local/share/bash-completion/completions/gearshift
    zsh   a folder of $fpath, as _gearshift
    fish  ~/.config/fish/completions/gearshift.fish
    """  # noqa: D301 - click wants the character itself, which a raw text would not have
    kind = get_completion_class(shell)
    assert kind is not None, shell  # noqa: S101 - the choice above lists only shells that click has
    session.output.write(kind(ctx.find_root().command, {}, "gearshift", "_GEARSHIFT_COMPLETE").source())
