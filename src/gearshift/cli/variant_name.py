"""The VARIANT argument: completes from what the running server has."""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import CompletionItem

from gearshift.cli.session import Session

COMPLETION_TIMEOUT_S = 0.5  # a Tab that waits longer is worse than one that offers nothing


class VariantName(click.ParamType[str]):
    """A variant id, or a model that has one variant; only the server knows which exist, so nothing is refused here."""

    name = "variant"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        del param
        return [CompletionItem(row["variant"], help=row["state"]) for row in _rows(ctx) if _fits(row, incomplete)]


def meant(session: Session, name: str) -> str:
    """The id of the variant that the server takes ``name`` for. Raises AdminError for none."""
    variant: str = session.admin.get(f"/variants/{name}")["variant"]
    return variant


def _fits(row: dict[str, Any], incomplete: str) -> bool:
    return str(row["variant"]).startswith(incomplete)


def _rows(ctx: click.Context) -> list[dict[str, Any]]:
    """The server's rows, or none: completion must never print an error into a prompt."""
    import os  # noqa: PLC0415 - click runs completion without the root callback, so the session is made here

    from gearshift.cli.output import Output  # noqa: PLC0415 - likewise
    from gearshift.domain.errors import GearshiftError  # noqa: PLC0415 - likewise

    session = Session(env=dict(os.environ), output=Output(), url=ctx.find_root().params.get("url"))
    try:
        rows: list[dict[str, Any]] = session.admin.call("GET", "/variants", timeout=COMPLETION_TIMEOUT_S)
    except (GearshiftError, OSError, ValueError):
        return []
    return rows
