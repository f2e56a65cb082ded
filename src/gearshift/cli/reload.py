"""`gearshift reload`: have the server read its configuration again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from gearshift.cli.client import AdminError
from gearshift.cli.session import Session, pass_session
from gearshift.domain.errors import ConfigError, Problem

_PARTS = {
    "added": "added",
    "removed": "removed, once drained",
    "changed": "changed, restarted once idle",
    "untouched": "untouched",
}
_REFUSED = "nothing was changed: "


@click.command("reload")
@click.option("--json", "as_json", is_flag=True, help="One JSON document: variants added, removed, changed, untouched.")
@pass_session
def command(session: Session, *, as_json: bool) -> None:
    """Have the server read its configuration again.

    Variants that did not change go on serving, with their streams. A file with an error changes nothing (exit status
    2). SIGHUP does the same.
    """
    try:
        report = session.admin.call("POST", "/reload", timeout=None)
    except AdminError as error:
        raise _refusal(error) from error
    for problem in report["problems"]:
        session.output.warn(str(Problem(problem["message"], problem["path"], problem["line"], problem["hint"])))
    session.output.emit(report, as_json=as_json, human=lambda: "\n".join(_lines(report)))


def _refusal(error: AdminError) -> AdminError | ConfigError:
    """The server's one message taken apart into the problems it is made of."""
    if error.code != "invalid_config":
        return error
    lines = [_REFUSED.rstrip(": "), *error.message.removeprefix(_REFUSED).splitlines()]
    return ConfigError(tuple(Problem(line, "") for line in lines))


def _lines(report: Mapping[str, Any]) -> Iterator[str]:
    for part, words in _PARTS.items():
        if report[part]:
            yield f"{words}: {', '.join(report[part])}"
